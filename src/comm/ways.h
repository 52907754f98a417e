/* The ways by which operations move bytes, in one list. The list decides: an operation takes the way with the highest
 * score among those that fit. `tessera bench comm --list` prints it. */
#ifndef TESS_COMM_WAYS_H
#define TESS_COMM_WAYS_H

#include "comm/comm_impl.h"

typedef struct comm_way {
    const char *name;
    const char *memory;     /* "host" or "device" */
    const char *reach;      /* the ranks that it connects */
    const char *operations; /* "all" includes messages */
    int score;
    const char *what;
    const comm_backend *backend;
    bool (*fits_team)(int size, int n_local); /* not NULL: the way is for memory of the host */
    bool (*fits)(const tess_work *work);      /* not NULL: the way is for memory of a device */
    uint8_t flags;                            /* flags of the fingerprint, which differ if ranks take different ways */
} comm_way;

const comm_way *tess_comm_ways(int *n);

/* Returns the way of a team's operations on memory of the host. n_local: members on this host. */
const comm_way *tess_way_of_team(int size, int n_local);
/* Returns the way of a collective on memory of the device. Uses only facts that are equal on all ranks. */
const comm_way *tess_way_of_work(const tess_work *work);

#endif
