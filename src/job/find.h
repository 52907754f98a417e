/* Finds the live jobs of this machine from outside, by the memory that their processes hold, and maps it read-only.
 * Nothing here can disturb a job: it writes nothing, takes no lock, wakes nobody and stops no process. While a job is
 * open here its memory outlives it: close it soon after it has ended. */
#ifndef TESS_JOB_FIND_H
#define TESS_JOB_FIND_H

#include "job/job_memory.h"

enum { TESS_LIVE_MAX = 64, TESS_LIVE_COMMAND_BYTES = 256 };

typedef struct tess_live_job {
    tess_job job;             /* header, board and rings; stores to it fault. fd is -1 */
    int world, n_hosts, host; /* checked once: a broken program may change those of the header */
    int pid;                  /* the launcher; where that is not visible, the lowest pid of the job's processes */
    int pid_fd;               /* readable once that process has ended; -1: the system has none */
    uint64_t device, inode;   /* file of the memory: identifies the job */
    uint64_t start_ns;        /* when `pid` was started, on the monotonic clock; 0: not known */
    char command[TESS_LIVE_COMMAND_BYTES]; /* command line of `pid`, arguments separated by blanks */
} tess_live_job;

/* Opens the live jobs of this user selected by `what`, at most `max`, in ascending order of their pids:
 *   NULL      all
 *   "4711"    the job that this process launched or takes part in
 *   a folder  the job whose ranks write their traces to it, or to its "trace"
 * *n_jobs is how many there are; close each with tess_live_close.
 * TESS_E_NOT_FOUND: none (the message says why). Jobs whose memory has another version than this program's are skipped;
 * TESS_E_UNSUPPORTED: there is no other. */
tess_status tess_live_find(const char *what, tess_live_job *jobs, int max, int *n_jobs);
/* Looks through all processes once for the jobs of several folders, as tess_live_find does for one.
 *   jobs   (n) job of each folder that has one, to be closed with tess_live_close
 *   found  (n) whether the folder has one */
void tess_live_find_each(const char *const *folders, int n, tess_live_job *jobs, bool *found);
void tess_live_close(tess_live_job *live);

/* Closes the descriptors of jobs' memory that this process has inherited: it must not keep the memory of a job that has
 * ended. */
void tess_live_let_go(void);

/* False once `pid` has ended: the board then stays as the job left it. */
bool tess_live_running(const tess_live_job *live);

#endif
