/* Locks a job.dump_folder, so that only one job at a time writes into it. */
#ifndef TESS_CONTROL_SUPERVISE_FOLDER_LOCK_H
#define TESS_CONTROL_SUPERVISE_FOLDER_LOCK_H

#include "base/core/reporter.h"
#include "config/config.h"

typedef struct tess_folder_lock {
    int fd;    /* descriptor of the locked file; -1: not locked */
    bool made; /* the folder did not exist before */
    bool
        is_first; /* this process looks after the folder, alone or as the first of those that were started one by one */
} tess_folder_lock;

/* Creates the folder and locks it for this job. The lock holds until it is released, or until this process and all
 * processes that it starts from now on have ended. If ranks were started one by one, only the first one locks. Waits
 * for the ranks of a job whose launcher is gone. If the file system has no locks, reports a warning. TESS_E_INVALID:
 * another job holds the folder (the message names it and says what to do); nothing was written. */
tess_status tess_folder_lock_take(const tess_config *config, const tess_reporter *reporter, tess_folder_lock *folder);
/* Removes the lock. Also removes the folder if it was created for this job and is empty. */
void tess_folder_lock_release(const tess_config *config, tess_folder_lock *folder);

/* Locks a folder in which a job keeps copies of its checkpoints, and creates it. Never waits. *fd: the lock, which
 * lasts until it is closed; -1: the file system has no locks. TESS_E_INVALID: another job has it; the message says
 * which. */
tess_status tess_folder_lock_place(const char *folder, int *fd);

#endif
