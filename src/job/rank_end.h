/* How a rank ended, on the board, and the root cause of a job's failure. For the launcher and the warden. */
#ifndef TESS_JOB_RANK_END_H
#define TESS_JOB_RANK_END_H

#include "job/job_memory.h"
#include "job/failure.h"

/* The searches below use the job's room (job/ending_room.h): one thread at a time may call them on one tess_job. */

/* Seconds from SIGTERM, which survivors of a failure get after their grace, to SIGKILL. */
#define TESS_KILL_AFTER_S 2.0
/* A host is out of touch when its agent, which sends ten times a second, has been silent for so long. */
#define TESS_AGENT_SILENCE_S 4.0

/* The exit code that a shell would show for a status of waitpid: 128 + signal, or the code. */
int tess_ending_code(int wait_status);

/* Writes to the board that the process of `rank` has ended, and wakes all ranks. `asked`: it ended because it was asked
 * to, so this is no failure; nor is code 0. Adds the process to the rank's past. True for a failure: the rank is LOST.
 */
bool tess_ending_note(const tess_job *job, int rank, int wait_status, bool asked);
/* The same for a rank of which only signal and exit code are known. */
void tess_ending_lose(const tess_job *job, int rank, int signal, int exit_code);

/* The root cause: `rank` may have failed because of another that ended or left, so this follows the blame to its end.
 * Where ranks blame each other in a circle it is the first of the circle on the way. */
int tess_ending_cause(const tess_job *job, int rank);

/* The root cause of a job's failure, and its exit code; 0: it has none of its own. It is that of `seen_first`. While no
 * signal of a launcher has ended a rank (`early`), it may also be a rank that was killed or lost with its host, because
 * others may end because of it before its loss is known here. */
int tess_ending_find(const tess_job *job, int seen_first, bool early, int *code);

/* True when the watchdog has found why this rank keeps others waiting. */
bool tess_ending_keeps_waiting(const tess_job *job, int rank);

/* True when the watchdog's finding about this rank still holds although the rank has ended. The rank gave up waiting
 * for ranks that waited for it, so its end adds nothing. */
bool tess_ending_leaves_finding(const tess_job *job, int rank);

/* The rank that `rank` waited for without success and that the watchdog has a finding about. It may still run, or have
 * been ended since. Where ranks wait for each other in a circle it is the one with a finding, possibly `rank` itself.
 * -1: none. */
int tess_ending_stuck(const tess_job *job, int rank);
enum { TESS_ENDING_PROGRESS = 400 };

/* "rank 2 is at step 11, the others at step 12: it has had one batch less ...", when `rank` is not at the step of most
 * ranks; else false. */
bool tess_ending_report_progress(const tess_job *job, int rank, char text[TESS_ENDING_PROGRESS]);

/* "rank 3 was killed by signal 9 (SIGKILL) in ...: its error". `stuck`: what tess_ending_stuck found for `rank`; where
 * it found one, "rank 3 never came to all_reduce #7 of ...: it is in phase 'data' of step 5, stopped ...; rank 1 gave
 * up". Returns text. */
const char *tess_ending_report(const tess_job *job, int rank, int stuck, char *text, size_t size);

/* The newest step that a rank has done; 0 or -1: none. */
int64_t tess_ending_steps_done(const tess_job *job);

/* The facts about a failure of `rank`. It began at `cause`, which differs from `rank` when it waited for that rank
 * without success. */
void tess_ending_facts(const tess_job *job, int cause, int rank, int exit_code, const char *report, tess_failure *out);

#endif
