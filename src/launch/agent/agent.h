/* The guard and the agent: what runs beside the ranks of a job that MPI has started.
 *
 * A process that MPI starts becomes a guard: it forks, the child is the rank, and the guard stays its parent. It takes
 * no part in any collective. It sees how its rank ends and writes it on the board, so that the others learn of it
 * within milliseconds; it stands between the rank and mpirun, which would end all ranks at the first that dies, before
 * they could say what they know. The guard of a host's first rank is the host's agent as well: it exchanges boards with
 * the agents of the other hosts over TCP, some hundred bytes a rank, ten times a second and at every change that
 * matters (state, error, request to stop), and so is the one who knows of a dead host or a cut link.
 *
 *     rank --(TESSERA_GUARD_FD, a socket pair)--> guard;   agent <--(TCP)--> agents of the other hosts */
#ifndef TESS_LAUNCH_AGENT_AGENT_H
#define TESS_LAUNCH_AGENT_AGENT_H

#include "job/warden_call.h"
#include "launch/launcher.h"

/* How long agents try to find each other; those who call say first what is wrong: they know why. */
#define TESS_AGENT_REACH_S 10.0
#define TESS_AGENT_CALLED_S 60.0

/* Runs argv[0] with argv as the rank of this process and guards it until the job is over here.
 *
 * SIGINT, SIGTERM, SIGUSR2 and, where options->usr1_stops, SIGUSR1 ask the whole job to stop (header->stop on all
 * hosts; a rank that has not been adopted gets the signal itself). A second one by the same way (sender and number: a
 * scheduler may tell every process, and mpirun pass it on) kills the rank, as does the end of options->stop_grace_s;
 * else SIGUSR1 is passed on. After a failure ranks get grace_s to end by themselves, then SIGTERM, then SIGKILL; one
 * that is stopped, or that the verdict's rank waited for in vain, is killed once the verdict is out.
 *
 * options->tick is called once the rank has been adopted, a hundred times a second at most, with its process alone.
 *
 * result->report is the root cause of the whole job on exactly one guard of those that are in touch (the agent of the
 * lowest host, as a rule that of rank 0) and "" on all others; exit_code as the root cause has it on all whose ranks
 * had not ended well before it. mpirun ends all others as soon as one guard ends with an error, so with an error it
 * returns only when the ranks have ended and the verdict was told, or grace_s + 3 s after the failure. The caller is to
 * print the report and end: the end of its process is what the other guards wait for. */
tess_status tess_warden_run(char *const *argv, const tess_launch_options *options, tess_launch_result *result);

#endif
