/* How a rank ended, on the board, and where the failure of a job began. For the launcher and the guard. */
#ifndef TESS_JOB_RANK_END_H
#define TESS_JOB_RANK_END_H

#include "job/job_memory.h"

/* From SIGTERM, which survivors of a failure get after their grace, to SIGKILL. */
#define TESS_KILL_AFTER_S 2.0
/* A host is out of touch when its agent, which speaks ten times a second, has not for so long. */
#define TESS_AGENT_SILENCE_S 4.0

/* The exit code that a shell would show for what waitpid gave: 128 + signal, or the code. */
int tess_ending_code(int wait_status);

/* Writes on the board that the process of `rank` has ended and wakes all. `asked`: with this code because it was asked
 * to; no failure, nor is code 0. True when it is a failure: the rank is LOST. */
bool tess_ending_note(const tess_job *job, int rank, int wait_status, bool asked);
/* The same for a rank of which only this is known. */
void tess_ending_lose(const tess_job *job, int rank, int signal, int exit_code);

/* A rank may have failed because of another that ended or left: follows the blame to where it begins. Where
 * ranks blame each other in a circle that is the first of them on the way. */
int tess_ending_cause(const tess_job *job, int rank);

/* The watchdog has said of this rank why it does not come. */
bool tess_ending_keeps_waiting(const tess_job *job, int rank);

/* What the watchdog said of this rank stands, although it has ended: it gave up waiting for those whom it had kept
 * waiting, and that it ended is no news. */
bool tess_ending_leaves_finding(const tess_job *job, int rank);

/* The rank that `rank` has waited for in vain, when the watchdog says why that one does not come; it may still run, or
 * have been ended since. Where ranks wait for each other in a circle that is the one of whom the watchdog says so, and
 * `rank` itself may be it. -1: nobody. */
int tess_ending_stuck(const tess_job *job, int rank);
/* "rank 3 never came to all_reduce #7 of ...: it is in phase 'data' of step 5, stopped ...; rank 1 gave up": of that
 * rank, where `rank` gave up. Returns text. */
const char *tess_ending_report_stuck(const tess_job *job, int rank, int stuck, char *text, size_t size);

enum { TESS_ENDING_PROGRESS = 400 };

/* "rank 2 is at step 11, the others at step 12: it has had one batch less ...", of a rank that is not where most are;
 * else false. */
bool tess_ending_report_progress(const tess_job *job, int rank, char text[TESS_ENDING_PROGRESS]);

/* "rank 3 was killed by signal 9 (SIGKILL) in ...: its error"; returns text. */
const char *tess_ending_report(const tess_job *job, int rank, char *text, size_t size);

#endif
