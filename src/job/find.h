/* Live jobs of this machine, looked at from outside: found by the memory that their processes hold, which is mapped for
 * reading only. Nothing here can disturb a job: no word of it is written, no lock taken, nobody woken, no process
 * stopped. While a job is open here its memory outlives it: close soon after it has ended. */
#ifndef TESS_JOB_FIND_H
#define TESS_JOB_FIND_H

#include "job/job_memory.h"

enum { TESS_LIVE_MAX = 64, TESS_LIVE_COMMAND_BYTES = 256 };

typedef struct tess_live_job {
    tess_job job;             /* header, board and rings; stores to it fault. fd is -1 */
    int world, n_hosts, host; /* checked once: a broken program may change the header's */
    int pid;                  /* the launcher; where it is not to be seen, of the job's processes the lowest */
    int pid_fd;               /* readable once that process has ended; -1: the system has none */
    uint64_t device, inode;   /* of the memory: what tells jobs apart */
    uint64_t start_ns;        /* when `pid` was started, on the monotonic clock; 0: not known */
    char command[TESS_LIVE_COMMAND_BYTES]; /* of `pid`, with blanks between the words */
} tess_live_job;

/* Opens the live jobs of this user that `what` names, at most `max`, in ascending order of their pids:
 *   NULL      all
 *   "4711"    the one that this process launched or takes part in
 *   a folder  the one whose ranks keep their traces in it, or in its "trace"
 * *n_jobs is how many there are; close each with tess_live_close. TESS_E_NOT_FOUND: none (the message says why). A job
 * whose memory has another version than this program's is passed over; when there is no other: TESS_E_UNSUPPORTED. */
tess_status tess_live_find(const char *what, tess_live_job *jobs, int max, int *n_jobs);
void tess_live_close(tess_live_job *live);

/* False once `pid` has ended: the board is then as the job left it. */
bool tess_live_running(const tess_live_job *live);

#endif
