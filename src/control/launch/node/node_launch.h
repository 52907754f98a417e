/* Starts the ranks of one host of a job whose hosts meet over TCP (comm/tcp). Each host runs this command by itself.
 * The ranks get torchrun's variables, and each has a warden, as under MPI (agent/agent.h). */
#ifndef TESS_CONTROL_LAUNCH_NODE_NODE_LAUNCH_H
#define TESS_CONTROL_LAUNCH_NODE_NODE_LAUNCH_H

#include "base/core/reporter.h"
#include "tessera/status.h"

enum { NODE_MOST = 128, NODE_NAME_BYTES = 128 };

typedef struct tess_launch_node {
    char master[NODE_NAME_BYTES]; /* address at which rank 0 waits for the others */
    int port;
    int node, n_nodes;
    int n_ranks[NODE_MOST]; /* (n_nodes) ranks of each host */
    int n_restarts;         /* failures after which the ranks start again */
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
 * Ranks that refuse their input, or that were asked to stop, do not start again. */
tess_status tess_node_run(const tess_launch_node *node, char *const *argv, int *code);

#endif
