/* Starts the ranks of one host of a job whose hosts meet over TCP (comm/tcp). Each host runs this command by itself.
 * The ranks get torchrun's variables, and each has a warden, as under MPI (agent/agent.h). */
#ifndef TESS_CONTROL_LAUNCH_NODE_NODE_LAUNCH_H
#define TESS_CONTROL_LAUNCH_NODE_NODE_LAUNCH_H

#include "base/core/reporter.h"
#include "tessera/status.h"

enum { NODE_MOST = 128, NODE_NAME_BYTES = 128 };

/* Defaults of tess_launch_node. */
#define NODE_SPARE_AFTER_S 20
#define NODE_WAIT_S 600

typedef struct tess_launch_node {
    char master[NODE_NAME_BYTES]; /* address at which rank 0 waits for the others */
    int port;
    int node, n_nodes;
    int n_spares;           /* hosts in addition to n_nodes, each of which may take the place of a lost one */
    int n_ranks[NODE_MOST]; /* (n_nodes) ranks of each host */
    int n_restarts;         /* failures after which the ranks start again */
    double spare_after_s;   /* time after which a host that does not come, or is silent, loses its place to a spare */
    double wait_s;          /* longest wait for the other hosts, if there are spares */
    tess_reporter reporter;
} tess_launch_node;

/* Parses "host:port", or "[fd00::2]:port". */
tess_status tess_node_parse_master(const char *text, tess_launch_node *node);
/* Parses the numbers of ranks: "4" for all hosts, or "3,1". n_nodes must be set. */
tess_status tess_node_parse_ranks(const char *text, tess_launch_node *node);

/* Runs argv as the ranks of this host. Requests to stop are passed on. When a rank ends with an error, the others have
 * a second to end by themselves; then they get SIGTERM, and SIGKILL. *code: the first error, or 0.
 *
 * After a failure all ranks of this host start again, up to n_restarts times, after 1, 2, 4 ... 60 s. The other hosts
 * do the same by themselves: a failure ends the ranks of all hosts, and those that come first wait for the others.
 * Ranks that refuse their input, or that were asked to stop, do not start again.
 *
 * With n_spares > 0 the hosts call node 0 before each start (node_desk.h). It says which hosts run the
 * ranks of which node, and counts failures for all of them. Its own host cannot be replaced. A spare returns the job's
 * code. */
tess_status tess_node_run(const tess_launch_node *node, char *const *argv, int *code);

#endif
