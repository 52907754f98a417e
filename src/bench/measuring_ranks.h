/* Starts ranks, as `tessera train -n` does, for a measurement. */
#ifndef TESS_BENCH_MEASURING_RANKS_H
#define TESS_BENCH_MEASURING_RANKS_H

#include "tessera/comm.h"

typedef struct tess_bench_ranks {
    int n;
    tess_runtime_options options;
    bool bind; /* binds each rank to a core if there are enough cores, as mpirun does */
    /* Runs in each rank; `result` belongs to the rank and is zeroed at first. Rank 0's result becomes that of the
     * measurement. */
    tess_status (*run)(tess_runtime *runtime, const void *plan, void *result);
    const void *plan;
} tess_bench_ranks;

/* Runs the measurement. Writes `size` bytes of rank 0's result, also on failure. After a refusal, returns rank 0's
 * status and message. If a rank is lost, returns TESS_E_PEER_LOST with the launcher's report. */
tess_status tess_bench_ranks_run(const tess_bench_ranks *ranks, void *result, size_t size);

/* Computes the sum or maximum over all ranks, in whole nanoseconds. Collective. */
tess_status tess_bench_reduce_s(tess_team *team, tess_op op, double *seconds);

#endif
