/* The peak speed of a job's cores. */
#ifndef TESS_TRAIN_TRAIN_PEAK_H
#define TESS_TRAIN_TRAIN_PEAK_H

#include "tessera/comm.h"

/* What one rank measured, and on which cores. */
typedef struct tess_rank_power {
    int64_t host, cores_set; /* ranks with the same two numbers run on the same cores */
    int64_t cores, threads;
    double flops; /* per second, of its threads while other ranks measure too */
} tess_rank_power;

/* The sum over ranks. Threads beyond the cores of a host take turns and add nothing. Different sets of cores on a host
 * are taken to be disjoint. */
double tess_peak_of_ranks(const tess_rank_power *ranks, int n);

/* The same for the team's ranks. Collective; all ranks get the same result. */
tess_status tess_peak_of_team(tess_mem *mem, tess_team *team, double flops, int threads, double *peak);

#endif
