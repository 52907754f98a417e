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
    tess_reporter reporter;
} tess_launch_node;

/* Parses "host:port", or "[fd00::2]:port". */
tess_status tess_node_parse_master(const char *text, tess_launch_node *node);
/* Parses the numbers of ranks: "4" for all hosts, or "3,1". n_nodes must be set. */
tess_status tess_node_parse_ranks(const char *text, tess_launch_node *node);

/* Runs argv as the ranks of this host. Requests to stop are passed on. When a rank ends with an error, the others have
 * a second to end by themselves; then they get SIGTERM, and SIGKILL. *code: the first error, or 0. */
tess_status tess_node_run(const tess_launch_node *node, char *const *argv, int *code);

#endif
