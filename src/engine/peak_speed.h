/* Computes the peak speed of a job: of its cores, or of its GPUs. */
#ifndef TESS_ENGINE_PEAK_SPEED_H
#define TESS_ENGINE_PEAK_SPEED_H

#include "device/device.h"
#include "tessera/comm.h"

/* The speed that one rank measured, and its cores. A GPU is one core, and its rank one thread. */
typedef struct tess_rank_power {
    int64_t host, cores_set; /* ranks with the same two numbers run on the same cores */
    int64_t cores, threads;
    double flops; /* operations per second of its threads, measured while other ranks measure, too */
} tess_rank_power;

/* Adds the speeds of all ranks. Threads in excess of a host's cores share them and add nothing. Different sets of
 * cores on a host are assumed to be disjoint. */
double tess_peak_of_ranks(const tess_rank_power *ranks, int n);

/* Describe the caller: the measured speed of its cores, or the speed that its device states (0: it states none). The
 * host is left 0. */
tess_rank_power tess_power_of_cores(double flops, int threads);
tess_rank_power tess_power_of_device(const tess_device_properties *device, tess_dtype dtype);

/* Computes the peak of the team's ranks from each rank's own power. Collective; all ranks receive the same result. */
tess_status tess_peak_of_team(tess_mem *mem, tess_team *team, tess_rank_power mine, double *peak);

#endif
