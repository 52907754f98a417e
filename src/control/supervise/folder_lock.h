/* One job at a time writes into a job.dump_folder. */
#ifndef TESS_CONTROL_SUPERVISE_FOLDER_LOCK_H
#define TESS_CONTROL_SUPERVISE_FOLDER_LOCK_H

#include "base/core/reporter.h"
#include "config/config.h"

typedef struct tess_folder_lock {
    int fd;    /* the locked file, -1: not locked */
    bool made; /* the folder did not exist before */
} tess_folder_lock;

/* Makes the folder and locks it for this job, until the release or until this process and all that it starts from now
 * on have ended. Of ranks that were started one by one only the first does so. Waits for the ranks of a job whose
 * launcher is gone. TESS_E_INVALID: another job holds it (the message says which, and what to do); nothing was written.
 * On a file system without locks it reports a warning. */
tess_status tess_folder_lock_take(const tess_config *config, const tess_reporter *reporter, tess_folder_lock *folder);
/* Removes the lock, and the folder if it was made for this job and is empty. */
void tess_folder_lock_release(const tess_config *config, tess_folder_lock *folder);

#endif
