/* The processes of one host of a job: its ranks, from their start to the end of the last. */
#ifndef TESS_CONTROL_LAUNCH_NODE_NODE_RANKS_H
#define TESS_CONTROL_LAUNCH_NODE_NODE_RANKS_H

#include <signal.h>

#include "control/launch/child.h"
#include "control/launch/node/node_launch.h"

/* Codes of ranks that do not start again: they refuse their input, or were asked to stop. */
enum { NODE_REFUSED_CODE = 2, NODE_STOPPED_CODE = 128 + SIGINT };

typedef struct node_ranks {
    const tess_launch_node *node;
    tess_child_signals signals;
    int seat;                /* the node whose ranks run here */
    int n, n_running, first; /* first: rank of the first process */
    pid_t *pids;             /* (n) 0: it has ended */
    int code;
    double failed_s; /* time of the first error; 0: none */
    int sent;        /* last signal that was sent because of it */
    bool asked;      /* a signal asked the ranks to stop */
    /* called ten times a second, also while no rank runs; NULL: nothing is */
    void (*look)(void *self);
    void *self;
} node_ranks;

/* Blocks the signals that ask to stop until node_ranks_end: node_ranks_look returns them. */
void node_ranks_begin(const tess_launch_node *node, node_ranks *ranks);
void node_ranks_end(node_ranks *ranks);

/* Takes the place of a node, for the next start. */
tess_status node_ranks_sit(node_ranks *ranks, int seat);
/* Starts the ranks and returns when all have ended. ranks->code: the first error, or 0. */
tess_status node_ranks_run(node_ranks *ranks, char *const *argv);
/* Waits for a tenth of a second. Returns the signal that has asked the ranks to stop, or 0. */
int node_ranks_look(node_ranks *ranks);
/* Ends the ranks that run as if one of them had failed with this code. */
void node_ranks_fail(node_ranks *ranks, int code);

/* Number of ranks of the job. */
int node_count_ranks(const tess_launch_node *node);

#endif
