/* The hot loops of reduce.c and convert.c, once in plain C and once for AVX-512; the bits are the same. */
#ifndef TESS_COMM_REDUCE_LOOPS_H
#define TESS_COMM_REDUCE_LOOPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tess_reduce_loops {
    void (*widen_bf16)(const uint16_t *x, float *y, size_t n);
    void (*narrow_bf16)(const float *x, uint16_t *y, size_t n);
    /* y = a + b, then + y when `accumulate`; y may be a or b. */
    void (*add_f32)(const float *a, const float *b, float *y, size_t n, bool accumulate);
    void (*add_bf16)(const uint16_t *a, const uint16_t *b, float *y, size_t n, bool accumulate);
    /* y = (x[0] + x[1]) + (x[2] + x[3]); y may be one of the x. */
    void (*add4_f32)(const float *const *x, float *y, size_t n);
    void (*add4_bf16)(const uint16_t *const *x, float *y, size_t n);
} tess_reduce_loops;

extern const tess_reduce_loops tess_reduce_loops_avx512;

/* Those that this machine runs best. */
const tess_reduce_loops *tess_reduce_loops_best(void);

#endif
