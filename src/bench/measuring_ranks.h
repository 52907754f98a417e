/* Measurements that take ranks: processes that are started as `tessera train -n` starts them, measure, and end. */
#ifndef TESS_BENCH_MEASURING_RANKS_H
#define TESS_BENCH_MEASURING_RANKS_H

#include "tessera/comm.h"

typedef struct tess_bench_ranks {
    int n;
    tess_runtime_options options;
    bool bind; /* where there are cores enough, each rank stays on one, as mpirun has it */
    /* What a rank does; `result` is its own, zero at first, and rank 0's becomes that of the measurement. */
    tess_status (*run)(tess_runtime *runtime, const void *plan, void *result);
    const void *plan;
} tess_bench_ranks;

/* Writes `size` bytes of result, also on failure. A refusal has rank 0's status and message; TESS_E_PEER_LOST: what the
 * launcher says of the rank that was lost. */
tess_status tess_bench_ranks_run(const tess_bench_ranks *ranks, void *result, size_t size);

/* The sum or the maximum (of nanoseconds) over all ranks. Collective. */
tess_status tess_bench_reduce_s(tess_team *team, tess_op op, double *seconds);

#endif
