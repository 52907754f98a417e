/* The warden and the agent: the processes next to the ranks of a job that MPI has started.
 *
 * A process started by MPI becomes a warden: it forks, the child is the rank, and the warden stays its parent. It
 * takes part in no collective. When its rank ends, it writes to the board how, so that other ranks learn of it
 * within milliseconds. It also separates the rank from mpirun, which would end all ranks as soon as one dies, before
 * they could report.
 *
 * The warden of a host's first rank is also the host's agent. It exchanges boards with the agents of the other hosts
 * over TCP: some hundred bytes per rank, ten times a second and at every important change (state, error, request to
 * stop). So it detects a dead host or a cut link.
 *
 *     rank --(TESSERA_GUARD_FD, a socket pair)--> warden;   agent <--(TCP)--> agents of the other hosts
 *
 * The agent of the lowest host that is in touch reports the root cause, once. Wardens hold back their exit codes
 * until then, because mpirun ends all others at the first. */
/* clang-format off */
/*       host h1                                                            host h2
 *  mpirun ---- warden 0 (agent) <- TCP: board rows, ten a second -> (agent) warden 2 ---- mpirun's daemon
 *    |           | parent of          who died, who is to stop                | parent of
 *    |         rank 0 <-----------------+                +---------------> rank 2
 *    |           |  job memory of h1:   |                |   job memory of h2:  |
 *    |           |  board of ALL ranks  | MPI: posts,    |   board of ALL ranks |
 *    |           |  posts, areas        | large data     |   posts, areas       |
 *    |         rank 1 <-----------------+                +---------------> rank 3
 *    |           | parent of                                                  | parent of
 *    +-------- warden 1                                                     warden 3 */
/* clang-format on */
#ifndef TESS_CONTROL_LAUNCH_AGENT_AGENT_H
#define TESS_CONTROL_LAUNCH_AGENT_AGENT_H

#include "job/warden_call.h"
#include "control/launch/launcher.h"

/* Seconds in which agents must find each other. The calling side gives up first, because it knows the reason of the
 * failure. */
#define TESS_AGENT_REACH_S 10.0
#define TESS_AGENT_CALLED_S 60.0

/* Runs argv[0] with argv as the rank of this process, and stays its parent until the job is over on this host.
 *
 * Stop: SIGINT, SIGTERM, SIGUSR2 and, if options->usr1_stops, SIGUSR1 ask the whole job to stop (header->stop on all
 * hosts; a rank that has not been adopted gets the signal itself). Otherwise, SIGUSR1 is passed on to the rank. A
 * second signal of the same origin kills the rank, and so does the end of options->stop_grace_s. The origin is the
 * sender and the signal number: a scheduler may signal every process, and mpirun may pass the same signal on.
 *
 * Failure: ranks have grace_s to end by themselves, then get SIGTERM, then SIGKILL. Once the diagnosis is known, a
 * stopped rank is killed, and so is a rank that the diagnosed rank waited for without success.
 *
 * options->tick is called with this rank's process only, once the rank is adopted, at most a hundred times a second.
 *
 * result->report is the root cause of the whole job on exactly one of the connected wardens (the agent of the lowest
 * host, usually that of rank 0), and "" on all others. exit_code is that of the root cause on all wardens whose
 * ranks had not ended well before it. mpirun ends all wardens as soon as one ends with an error. So after a failure,
 * this returns only when the ranks have ended and the diagnosis was reported, or grace_s + 3 s after the failure.
 * The caller must print the report and end, because the other wardens wait for the end of its process. */
tess_status tess_warden_run(char *const *argv, const tess_launch_options *options, tess_launch_result *result);

#endif
