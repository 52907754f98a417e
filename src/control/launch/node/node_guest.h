/* The side of all hosts but node 0, in a job with spare hosts: asks node 0 which ranks to run (node_desk.h). */
#ifndef TESS_CONTROL_LAUNCH_NODE_NODE_GUEST_H
#define TESS_CONTROL_LAUNCH_NODE_NODE_GUEST_H

#include "control/launch/node/node_ranks.h"

typedef struct node_guest node_guest;

/* An order of node 0. */
typedef struct node_orders {
    bool ended;     /* the job has ended with `code` */
    int seat, life; /* else: run the ranks of node `seat`; all ranks have started `life` times before */
    int code;
} node_orders;

/* Errors are those of tess_host_lines_open. */
tess_status node_guest_open(const tess_launch_node *node, node_guest **guest);
void node_guest_close(node_guest **guest);
/* Tells node 0 that this host waits for a start, or (done) that its ranks have ended with ranks->code and need none.
 * Then waits for orders; for any time while node 0 is in touch. A signal that asks to stop ends the wait: the orders
 * are then to end. While the ranks run, an order to end ends them. TESS_E_TIMEOUT: node 0 was out of reach for
 * node->wait_s. TESS_E_INVALID: it refuses this host. */
tess_status node_guest_await(node_guest *guest, node_ranks *ranks, bool done, node_orders *orders);
/* Returns whether node 0 has said that the job has ended, and with which code. Otherwise tells
 * it (done) that the ranks have ended with ranks->code and need no start, since this host leaves. */
bool node_guest_leave(node_guest *guest, const node_ranks *ranks, bool done, int *code);

#endif
