/* The list of benches. */
#include "bench/bench.h"

static const tess_bench *const benches[] = {&tess_bench_machine, &tess_bench_kernels, &tess_bench_comm,
                                            &tess_bench_step, &tess_bench_ckpt};

const tess_bench *const *tess_bench_list(int *n)
{
    *n = sizeof(benches) / sizeof(benches[0]);
    return benches;
}
