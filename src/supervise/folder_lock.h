/* One job at a time writes into a job.dump_folder. */
#ifndef TESS_SUPERVISE_FOLDER_LOCK_H
#define TESS_SUPERVISE_FOLDER_LOCK_H

#include "train/train_config.h"

typedef struct tess_folder_lock {
    int fd;    /* that holds it, -1: it is not held */
    bool made; /* for this */
} tess_folder_lock;

/* Makes the folder and holds it for this job: until this process and all that it starts from now on have ended, however
 * they end, or it is released. Of ranks that were started one by one the first does it. TESS_E_INVALID: another job has
 * it (the message says which, and how to go on); nothing was written then. What is left of a job whose process is gone
 * is waited for. Where it cannot be held (a file system without locks) a line says so. */
tess_status tess_folder_lock_take(const tess_config *config, tess_folder_lock *folder);
/* Leaves nothing in the folder, and not the folder where nobody has written into it. */
void tess_folder_lock_release(const tess_config *config, tess_folder_lock *folder);

#endif
