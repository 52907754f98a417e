/* What the cores of a whole job can do. */
#ifndef TESS_TRAIN_TRAIN_PEAK_H
#define TESS_TRAIN_TRAIN_PEAK_H

#include "tessera/comm.h"

/* What one rank measured, and on what. */
typedef struct tess_rank_power {
    int64_t host, cores_set; /* ranks with the same two numbers run on the same cores */
    int64_t cores, threads;
    double flops; /* per second, of its threads at a time when other ranks measure, too */
} tess_rank_power;

/* The sum over ranks, where threads beyond the cores of their host take turns and add nothing. Sets of cores on one
 * host count as apart from each other. */
double tess_peak_of_ranks(const tess_rank_power *ranks, int n);

/* The same of the team's ranks. Collective; one answer for all. */
tess_status tess_peak_of_team(tess_mem *mem, tess_team *team, double flops, int threads, double *peak);

#endif
