/* The places of a job with spare hosts: which host runs the ranks of which node. Pure functions over data: no sockets,
 * no processes. */
#ifndef TESS_CONTROL_LAUNCH_NODE_NODE_SEATS_H
#define TESS_CONTROL_LAUNCH_NODE_NODE_SEATS_H

#include <stdbool.h>
#include <stddef.h>

#include "control/launch/node/node_launch.h"

enum { NODE_HOSTS = 2 * NODE_MOST, NODE_HOST_NAME_BYTES = 64 };

/* A host, by the number that it was started with (--node-rank). */
typedef struct node_host {
    bool here;  /* its launcher is connected */
    bool known; /* it was here once */
    bool ready; /* it waits for a start */
    bool done;  /* its ranks of this start have ended with `code`, which is no reason to start again */
    int code;   /* code with which its ranks ended, if it is ready or done */
    int seat;   /* the node whose ranks it runs; -1: it is a spare */
    char name[NODE_HOST_NAME_BYTES];
} node_host;

typedef struct node_seats {
    int n_seats, n_hosts;
    int holder[NODE_MOST]; /* (n_seats) number of a host */
    node_host hosts[NODE_HOSTS];
} node_seats;

/* Hosts 0 to n_seats - 1 have the places, and n_spares more are spare. Host 0 is here and always ready. */
void node_seats_begin(node_seats *seats, int n_seats, int n_spares);
/* Whether the holders of all places are ready. */
bool node_seats_full(const node_seats *seats);
/* Gives one place whose holder is not ready to a spare that is. `late`: also if the holder may only be slow; otherwise
 * if it was here and has gone. Place 0 stays. Returns the place, or -1: none was given. *before: the earlier holder. */
int node_seats_replace(node_seats *seats, bool late, int *before);
/* Whether the ranks of a place have a host that runs them, or have ended well. */
bool node_seats_alive(const node_seats *seats, int seat);
/* Whether the ranks of all places but 0 have ended with NODE_DONE. */
bool node_seats_done(const node_seats *seats);
/* All ranks are to start again. Hosts whose ranks have ended well, and which are here, wait for that. */
void node_seats_reopen(node_seats *seats);
/* All holders start: they are neither ready nor done any more. */
void node_seats_start(node_seats *seats);
/* Describes whose holders are not ready: "1 of 2 hosts: node 1". */
const char *node_seats_missing(const node_seats *seats, char *text, size_t size);

#endif
