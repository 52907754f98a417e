/* The peak speed of a job's cores, or of its GPUs. */
#ifndef TESS_ENGINE_PEAK_SPEED_H
#define TESS_ENGINE_PEAK_SPEED_H

#include "device/device.h"
#include "tessera/comm.h"

/* The speed that one rank measured, and its cores. A GPU is one core, and its rank one thread. */
typedef struct tess_rank_power {
    int64_t host, cores_set; /* ranks with the same two numbers run on the same cores */
    int64_t cores, threads;
    double flops; /* per second, of its threads while other ranks measure too */
} tess_rank_power;

/* The sum over ranks. Threads beyond the cores of a host take turns and add nothing. Different sets of cores on a host
 * are taken to be disjoint. */
double tess_peak_of_ranks(const tess_rank_power *ranks, int n);

/* The caller's power on some host: the measured speed of its cores, or what a device states (0: it states nothing). */
tess_rank_power tess_power_of_cores(double flops, int threads);
tess_rank_power tess_power_of_device(const tess_device_properties *device, tess_dtype dtype);

/* The same for the team's ranks. Collective; all ranks get the same result. */
tess_status tess_peak_of_team(tess_mem *mem, tess_team *team, tess_rank_power mine, double *peak);

#endif
