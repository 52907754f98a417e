/* The end of a tile of C: adds the bias, writes the sums, and computes what follows the product. Written once in `vec`;
 * include a header of vectors first. */
#ifndef TESS_DEVICE_CPU_GEMM_FINISH_VEC_H
#define TESS_DEVICE_CPU_GEMM_FINISH_VEC_H

#include "device/cpu/gemm_impl.h"
#include "device/cpu/vec_typed.h"
#include "device/vmath.h"
#include "device/activation.h"

static void finish_plain(const tess_gemm *g, int64_t i, int64_t j, int64_t rows, int64_t columns, const float *sum,
                         int64_t ld)
{
    for (int64_t c = 0; c < columns; c += 16) {
        int64_t n = columns - c < 16 ? columns - c : 16;
        vec bias = g->bias != NULL ? v_get(g->bias, j + c, n, g->ab_dtype) : v_set(0);
        for (int64_t r = 0; r < rows; r++) {
            vec value = v_load(sum + r * ld + c, n);
            v_put(g->c, (i + r) * g->ldc + j + c, g->bias != NULL ? v_add(value, bias) : value, n, g->c_dtype);
        }
    }
}

/* Computes what follows the n elements of C from element `at` on: the values and the bits of glu_forward and
 * glu_backward, or of act_forward and act_backward. */
TESS_INLINE void follow(const tess_gemm_fused *f, int64_t at, int64_t n, vec c, tess_dtype dtype)
{
    const vec gate = f->gate != NULL ? v_get(f->gate, at, n, dtype) : v_set(0);
    if (f->then == TESS_THEN_ACT) {
        v_put(f->y, at, f->gate != NULL ? v_mul(v_activate(gate, f->act), c) : v_activate(c, f->act), n, dtype);
        return;
    }
    const vec up = v_get(f->up, at, n, dtype);
    vec slope, y = v_activate_with_slope(f->gate != NULL ? gate : up, f->act, &slope);
    if (f->gate != NULL) {
        v_put(f->up, at, v_mul(c, y), n, dtype);
        v_put(f->gate, at, v_mul(v_mul(c, up), slope), n, dtype);
        y = v_mul(y, up);
    } else {
        v_put(f->up, at, v_mul(c, slope), n, dtype);
    }
    if (f->y != NULL)
        v_put(f->y, at, y, n, dtype);
}

TESS_INLINE void finish_following(const tess_gemm_fused *f, int64_t i, int64_t j, int64_t rows, int64_t columns,
                                  const float *sum, int64_t ld, tess_dtype dtype)
{
    const tess_gemm_fused copy = *f;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c += 16) {
            const int64_t n = columns - c < 16 ? columns - c : 16, at = (i + r) * copy.g.ldc + j + c;
            vec value = v_load(sum + r * ld + c, n);
            if (copy.g.bias != NULL)
                value = v_add(value, v_get(copy.g.bias, j + c, n, dtype));
            if (copy.then == TESS_THEN_ACT)
                v_put(copy.g.c, at, value, n, dtype);
            follow(&copy, at, n, dtype == TESS_F32 ? value : v_round_bf16(value), dtype);
        }
}

static void finish(const tess_gemm_fused *f, int64_t i, int64_t j, int64_t rows, int64_t columns, const float *sum,
                   int64_t ld)
{
    if (f->then == TESS_THEN_NOTHING)
        finish_plain(&f->g, i, j, rows, columns, sum, ld);
    else if (f->g.c_dtype == TESS_F32)
        finish_following(f, i, j, rows, columns, sum, ld, TESS_F32);
    else
        finish_following(f, i, j, rows, columns, sum, ld, TESS_BF16);
}

/* Computes what follows a product whose C is stored. */
static void finish_stored(const tess_gemm_fused *f)
{
    const tess_dtype dtype = f->g.c_dtype;
    for (int64_t i = 0; i < f->g.m && f->then != TESS_THEN_NOTHING; i++)
        for (int64_t j = 0; j < f->g.n; j += 16) {
            const int64_t n = f->g.n - j < 16 ? f->g.n - j : 16, at = i * f->g.ldc + j;
            follow(f, at, n, v_get(f->g.c, at, n, dtype), dtype);
        }
}

#endif
