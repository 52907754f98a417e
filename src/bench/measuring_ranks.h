/* Starts ranks, as `tessera train -n` does, that measure and end. */
#ifndef TESS_BENCH_MEASURING_RANKS_H
#define TESS_BENCH_MEASURING_RANKS_H

#include "tessera/comm.h"

typedef struct tess_bench_ranks {
    int n;
    tess_runtime_options options;
    bool bind; /* binds each rank to a core where there are enough, as mpirun does */
    /* Runs in each rank; `result` is its own, zero at first. Rank 0's becomes the result of the measurement. */
    tess_status (*run)(tess_runtime *runtime, const void *plan, void *result);
    const void *plan;
} tess_bench_ranks;

/* Writes `size` bytes of rank 0's result, also on failure. Returns rank 0's status and message for a refusal, or
 * TESS_E_PEER_LOST with the launcher's report of the lost rank. */
tess_status tess_bench_ranks_run(const tess_bench_ranks *ranks, void *result, size_t size);

/* The sum or the maximum over all ranks, in whole nanoseconds. Collective. */
tess_status tess_bench_reduce_s(tess_team *team, tess_op op, double *seconds);

#endif
