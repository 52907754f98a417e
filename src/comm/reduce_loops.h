/* The hot loops of reduce.c and convert.c, once in plain C and once for AVX-512; the bits are the same. */
#ifndef TESS_COMM_REDUCE_LOOPS_H
#define TESS_COMM_REDUCE_LOOPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct tess_reduce_loops {
    void (*widen_bf16)(const uint16_t *x, float *y, size_t n);
    void (*narrow_bf16)(const float *x, uint16_t *y, size_t n);
    /* y = a + b, then + y when `accumulate`; y may be a or b. True, as of all that follow: no y is NaN or infinite,
     * which is looked at while it is in a register and costs no time beside the memory's. */
    bool (*add_f32)(const float *a, const float *b, float *y, size_t n, bool accumulate);
    bool (*add_bf16)(const uint16_t *a, const uint16_t *b, float *y, size_t n, bool accumulate);
    /* y = (x[0] + x[1]) + (x[2] + x[3]); y may be one of the x. */
    bool (*add4_f32)(const float *const *x, float *y, size_t n);
    bool (*add4_bf16)(const uint16_t *const *x, float *y, size_t n);
} tess_reduce_loops;

/* Without its sign a float is in the order of its bits, infinity and NaN last: this, for the largest so far. */
static inline uint32_t tess_reduce_larger(uint32_t most, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits << 1 > most ? bits << 1 : most;
}

static inline bool tess_reduce_finite(uint32_t most)
{
    return most < UINT32_C(0xff000000);
}

extern const tess_reduce_loops tess_reduce_loops_avx512;

/* Those that this machine runs best. */
const tess_reduce_loops *tess_reduce_loops_best(void);

#endif
