/* The loops behind bench/memory.h over n floats, n a multiple of 128, arrays aligned to 64 bytes. Two files hold them:
 * one for any machine, one for AVX2, which has streaming stores. */
#ifndef TESS_BENCH_MEMORY_LOOPS_H
#define TESS_BENCH_MEMORY_LOOPS_H

#include <stdint.h>

typedef struct tess_bench_memory_loops {
    float (*read)(const float *a, int64_t n);
    void (*copy)(const float *a, float *c, int64_t n);
    void (*triad)(const float *a, const float *b, float *c, int64_t n);
    void (*copy_cached)(const float *a, float *c, int64_t n);
    void (*triad_cached)(const float *a, const float *b, float *c, int64_t n);
} tess_bench_memory_loops;

extern const tess_bench_memory_loops tess_bench_memory_loops_avx2;

#endif
