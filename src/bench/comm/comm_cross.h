/* Computes the bytes that a collective sends between hosts, with the algorithms of src/comm/hosts.
 *
 * With W ranks, of which host h has L[h] and S[h] subtrees of the canonical tree (1 where hosts hold equal powers of
 * two), and blocks of b = bytes / W, host h sends
 *     all_gather       L[h] b to each other host: equal hosts (H - 1) / H of the bytes, each block once to a host
 *     reduce_scatter   S[h] partials of b for each rank elsewhere; float32, so twice b for 16-bit types
 *     all_reduce       both
 *     broadcast        the bytes to each other host (the root's; nothing elsewhere)
 *     all_to_all       b for each pair of a rank here and one elsewhere; gather, scatter: those with the root
 *     send_recv        the bytes of each rank whose next is elsewhere
 * and receives what the others send to it. A link carries both at once. Short data travels with the posts, whole, to
 * every host, and is not counted here. */
#ifndef TESS_BENCH_COMM_COMM_CROSS_H
#define TESS_BENCH_COMM_COMM_CROSS_H

#include "job/job_memory.h"
#include "tessera/comm.h"

typedef struct comm_map {
    int n_ranks, n_hosts;
    const int *host;         /* (n_ranks) host of each rank, borrowed */
    int n_on[JOB_MAX_HOSTS]; /* ranks of each host */
    int n_subtrees[JOB_MAX_HOSTS];
} comm_map;

typedef struct comm_traffic {
    double sent, received; /* bytes over a host's link */
} comm_traffic;

void comm_map_fill(const int *host, int n_ranks, comm_map *map);
/* Fills in the map of a team. host (number of ranks of the team) is memory of the map, which borrows it. */
void comm_map_of(const tess_team *team, int *host, comm_map *map);

/* Data from one host to another. */
typedef struct comm_flow {
    const comm_map *map;
    int from, to;
    double bytes, block; /* bytes of one rank, as in comm_call */
    double wide;         /* size of a partial sum, as a multiple of the size of a value */
} comm_flow;

/* Returns the bytes that a collective sends from one host to the other. */
typedef double comm_crossing(const comm_flow *flow);

comm_crossing comm_cross_gather_all, comm_cross_reduce_scatter, comm_cross_all_reduce, comm_cross_broadcast,
    comm_cross_each_pair, comm_cross_to_root, comm_cross_from_root, comm_cross_ring, comm_cross_nothing;

/* Returns the traffic of a host's link; `bytes` and `wide` as in comm_flow. */
comm_traffic comm_cross_traffic(comm_crossing *crossing, const comm_map *map, int host, double bytes, double wide);

/* Returns the bytes in the busiest direction of the busiest link, which give a lower bound of the time. */
double comm_cross_most(comm_crossing *crossing, const comm_map *map, double bytes, double wide);

#endif
