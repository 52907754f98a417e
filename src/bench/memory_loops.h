/* The loops of bench/bench_memory.h over n floats, n a multiple of 128, arrays aligned to 64 bytes. Two files hold
 * them: one for any machine, one for AVX2, which has streaming stores. */
#ifndef TESS_BENCH_MEMORY_LOOPS_H
#define TESS_BENCH_MEMORY_LOOPS_H

#include "bench/bench_memory.h"

/* The loop of TESS_BENCH_READ writes its sum to c[0], so that no compiler drops it. */
typedef void tess_bench_loop(const float *a, const float *b, float *c, int64_t n);

extern tess_bench_loop *const tess_bench_loops_avx2[TESS_BENCH_TRAFFIC_COUNT];

#endif
