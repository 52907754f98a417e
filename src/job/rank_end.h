/* Finds how a rank ended, and the root cause of a job's failure, from the board. Used by the launcher and the
 * warden. */
#ifndef TESS_JOB_RANK_END_H
#define TESS_JOB_RANK_END_H

#include "job/job_memory.h"
#include "job/failure.h"

/* The searches below use the job's scratch memory (job/ending_room.h), so only one thread at a time may call them on
 * a tess_job. */

/* Seconds between SIGTERM and SIGKILL for survivors of a failure. SIGTERM follows when their grace is over. */
#define TESS_KILL_AFTER_S 2.0
/* A host counts as unreachable if its agent, which sends ten times a second, has been silent for this many seconds. */
#define TESS_AGENT_SILENCE_S 4.0

/* Returns the exit code that a shell would show for a status of waitpid: 128 + signal, or the code. */
int tess_ending_code(int wait_status);

/* Writes to the board that the process of `rank` has ended, adds the process to the rank's past, and wakes all
 * ranks. `asked`: it ended because it was asked to, which is not a failure; code 0 is not a failure either. Returns
 * true for a failure: the rank is then LOST. */
bool tess_ending_note(const tess_job *job, int rank, int wait_status, bool asked);
/* Like tess_ending_note, for a failed rank of which only signal and exit code are known. */
void tess_ending_lose(const tess_job *job, int rank, int signal, int exit_code);

/* Returns the root cause. `rank` may have failed because of another rank that ended or left, so this follows the
 * chain of blame to its end. If ranks blame each other in a circle, it is the first one of the circle that is
 * reached. */
int tess_ending_cause(const tess_job *job, int rank);

/* Returns the root cause of a job's failure, and its exit code (0: it has none). The search begins at `seen_first`.
 * While the launcher has not ended a rank by a signal (`early`), it also considers ranks that were killed or lost
 * with their host. Other ranks may end because of such a rank before its loss is known here. */
int tess_ending_find(const tess_job *job, int seen_first, bool early, int *code);

/* Whether the watchdog has found why this rank keeps others waiting. */
bool tess_ending_keeps_waiting(const tess_job *job, int rank);

/* Whether the watchdog's finding about this rank still holds after the rank has ended. It holds if the rank gave up
 * waiting for ranks that waited for it, because its end adds nothing then. */
bool tess_ending_leaves_finding(const tess_job *job, int rank);

/* Returns the rank about which the watchdog has a finding, and for which `rank` waited without success. That rank
 * may still run, or may have been ended since. If ranks wait for each other in a circle, it is the one with a
 * finding, possibly `rank` itself. -1: none. */
int tess_ending_stuck(const tess_job *job, int rank);
enum { TESS_ENDING_PROGRESS = 400 };

/* Formats "rank 2 is at step 11, the others at step 12: it has had one batch less ..." if `rank` is not at the step
 * of most ranks. Otherwise returns false. */
bool tess_ending_report_progress(const tess_job *job, int rank, char text[TESS_ENDING_PROGRESS]);

/* Formats "rank 3 was killed by signal 9 (SIGKILL) in ...: its error". `stuck`: the result of tess_ending_stuck for
 * `rank`. If it is a rank, formats "rank 3 never came to all_reduce #7 of ...: it is in phase 'data' of step 5,
 * stopped ...; rank 1 gave up". Returns text. */
const char *tess_ending_report(const tess_job *job, int rank, int stuck, char *text, size_t size);

/* Returns the newest step that any rank has completed; 0 or -1: none. */
int64_t tess_ending_steps_done(const tess_job *job);

/* Collects the facts about a failure of `rank`. It began at `cause`, which is another rank if `rank` waited for that
 * rank without success. */
void tess_ending_facts(const tess_job *job, int cause, int rank, int exit_code, const char *report, tess_failure *out);

#endif
