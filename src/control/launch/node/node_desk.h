/* Node 0 of a job with spare hosts: the launchers of all other hosts call it. Before each start it waits until every
 * node of the job has a host, and gives the places of lost hosts to spares. */
#ifndef TESS_CONTROL_LAUNCH_NODE_NODE_DESK_H
#define TESS_CONTROL_LAUNCH_NODE_NODE_DESK_H

#include "control/launch/node/node_ranks.h"

typedef struct node_desk node_desk;

/* Listens at the job's address. Errors are those of tess_host_lines_open. */
tess_status node_desk_open(const tess_launch_node *node, node_desk **desk);
/* Tells all hosts that the job has ended with this code. Waits for a moment until they have gone. */
void node_desk_close(node_desk **desk, int code);

/* Waits until all places are taken, and lets the hosts start. Then looks after the hosts while the ranks run
 * (ranks->look). If a host stays lost while the ranks of this host wait for it, ends these. Returns early if a signal
 * asks to stop (ranks->asked). TESS_E_TIMEOUT names the nodes that have no host. */
tess_status node_desk_gather(node_desk *desk, node_ranks *ranks, int n_before);

#endif
