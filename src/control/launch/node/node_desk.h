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
 * (ranks->look). If the ranks of another host end in a failure, or the host stays lost, ends the ranks of this host:
 * they would wait. *starts: false, with ranks->code, if a signal asks to stop, or if ranks have ended for good.
 * TESS_E_TIMEOUT names the nodes that have no host. */
tess_status node_desk_gather(node_desk *desk, node_ranks *ranks, int n_before, bool *starts);
/* The ranks of this host have ended. If they ended well, waits for those of the other hosts: a signal that asks to stop
 * ends the wait. ranks->code becomes the code of this start for all hosts. */
void node_desk_settle(node_desk *desk, node_ranks *ranks);

#endif
