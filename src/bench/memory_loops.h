/* The loops of bench/bench_memory.h over n floats. n is a multiple of 128, and arrays are aligned to 64 bytes. There
 * are two versions: one for any machine, and one for AVX2, which has streaming stores. */
#ifndef TESS_BENCH_MEMORY_LOOPS_H
#define TESS_BENCH_MEMORY_LOOPS_H

#include "bench/bench_memory.h"

/* A loop. That of TESS_BENCH_READ writes its sum to c[0], so that compilers do not remove it. */
typedef void tess_bench_loop(const float *a, const float *b, float *c, int64_t n);

extern tess_bench_loop *const tess_bench_loops_avx2[TESS_BENCH_TRAFFIC_COUNT];

#endif
