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
#ifndef TESS_COMM_AGENT_AGENT_H
#define TESS_COMM_AGENT_AGENT_H

#include "comm/job/job.h"
#include "comm/launch.h"

enum { AGENT_ADDRESSES = 8, AGENT_ADDRESS_BYTES = 48, AGENT_SECRET_BYTES = 16 };

/* How the agent of a host can be called. Travels between hosts as it is. */
typedef struct tess_agent_address {
    char address[AGENT_ADDRESSES][AGENT_ADDRESS_BYTES]; /* numeric, IPv4 or IPv6; "" behind the last */
    uint16_t port;
    uint16_t spare[3];
} tess_agent_address;

/* ---- The rank's side, in this order
 * ------------------------------------------------------------------------------------- */
/* True inside a rank that a guard has started; then *fd is where to reach it. */
bool tess_guard_find(int *fd);
/* Hands over the host's shared memory and this rank's number: from now on its end is told on the board. */
tess_status tess_guard_adopt(int fd, const tess_job *job, int rank);
/* The host's first rank, in a job of several hosts: asks the guard to be the agent and to listen.
 * TESSERA_IFNAME names the network interface (prefix match, "eth,ib"); default: all but loopback. */
tess_status tess_guard_listen(int fd, tess_agent_address *mine);
/* Then tells it who the others are (hosts in the job's numbering) and the job's secret, which agents show each other.
 * The agent calls those with a larger number; header->agent_state says when all are up, or why not. */
tess_status tess_guard_meet(int fd, const tess_agent_address *hosts, int n_hosts,
                            const uint8_t secret[AGENT_SECRET_BYTES]);

/* ---- The guard's side
 * ---------------------------------------------------------------------------------------------------- */
/* Runs argv[0] with argv as the rank of this process and guards it until the job is over here. Signals as tess_launch.
 * result->report is the root cause of the whole job on exactly one guard of those that still can tell (that of the
 * first rank, as long as it is in touch), and "" on all others; exit_code as the root cause has it on all. After a
 * failure it returns only when the ranks of this host have ended and the verdict is out, or some seconds later: as soon
 * as one guard ends with an error, mpirun ends the others. */
tess_status tess_guard_run(char *const *argv, double grace_s, tess_launch_result *result);

#endif
