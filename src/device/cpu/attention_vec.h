/* Attention in float32, on the `vec` of the header that was included before. Lanes are queries and scores are stored as
 * (key, query), so maxima, sums and corrections are computed lane by lane. The result of a lane does not depend on the
 * number of other lanes. Each element of each product is one chain of FMAs over ascending k, as in the reference, so
 * every `vec` gives the same bits. BF16 operands are converted to float block by block. Probabilities and dS are
 * rounded to bf16 before they are used as operands.
 *
 * The includer defines ATTENTION_MR and ATTENTION_NV: rows and vectors of a product that fit its registers. */
#ifndef TESS_DEVICE_CPU_ATTENTION_VEC_H
#define TESS_DEVICE_CPU_ATTENTION_VEC_H

#include <math.h>
#include <string.h>

#include "device/cpu/attention_impl.h"
#include "device/cpu/product_vec.h"

enum { GROUPS = ATTENTION_ROWS / LANES };

static inline __attribute__((always_inline)) void product_columns(int nv, int64_t m, int64_t k, matrix a,
                                                                  const float *b, int64_t ldb, float *c, int64_t ldc,
                                                                  bool add, const vec *correction)
{
    int64_t i = 0;
    for (; i + ATTENTION_MR <= m; i += ATTENTION_MR, a.at += ATTENTION_MR * a.row)
        product_tile(ATTENTION_MR, nv, k, a, b, ldb, c + i * ldc, ldc, add, correction);
    for (; i < m; i++, a.at += a.row)
        product_tile(1, nv, k, a, b, ldb, c + i * ldc, ldc, add, correction);
}

/* c (m,n) = [c * correction +] a (m,k) b (k,n); n must be a multiple of 16. */
static void product(int64_t m, int64_t n, int64_t k, matrix a, const float *b, int64_t ldb, float *c, int64_t ldc,
                    bool add, const vec *correction)
{
    int64_t j = 0;
    for (; j + ATTENTION_NV * LANES <= n; j += ATTENTION_NV * LANES)
        product_columns(ATTENTION_NV, m, k, a, b + j, ldb, c + j, ldc, add,
                        correction == NULL ? NULL : correction + j / LANES);
    for (; j < n; j += LANES)
        product_columns(1, m, k, a, b + j, ldb, c + j, ldc, add, correction == NULL ? NULL : correction + j / LANES);
}

static inline vec load_any(const void *x, int64_t i, int64_t n, tess_dtype dtype)
{
    return dtype == TESS_F32 ? v_load((const float *)x + i, n) : v_load_bf16((const uint16_t *)x + i, n);
}

static inline void store_any(void *x, int64_t i, vec value, int64_t n, tess_dtype dtype)
{
    if (dtype == TESS_F32)
        v_store((float *)x + i, value, n);
    else
        v_store_bf16((uint16_t *)x + i, value, n);
}

/* Converts a row of D elements to float, and fills it with zeros up to `ld`. */
static void widen_row(const void *x, int64_t at, int64_t D, tess_dtype dtype, float *out, int64_t ld)
{
    for (int64_t d = 0; d < D; d += LANES)
        v_store(out + d, load_any(x, at + d, min64(LANES, D - d), dtype), LANES);
    for (int64_t d = divide_up(D, LANES) * LANES; d < ld; d += LANES)
        v_store(out + d, v_set(0), LANES);
}

/* Returns n rows of keys or values as floats: in place for F32, otherwise in `buffer` (n, D rounded up to a vector). */
static matrix widen_rows(const void *x, int64_t at, int64_t stride, int64_t n, int64_t D, tess_dtype dtype,
                         float *buffer)
{
    if (dtype == TESS_F32)
        return (matrix){(const float *)x + at, stride, 1};
    const int64_t ld = divide_up(D, LANES) * LANES;
    for (int64_t j = 0; j < n; j++)
        widen_row(x, at + j * stride, D, dtype, buffer + j * ld, ld);
    return (matrix){buffer, ld, 1};
}

static inline matrix transposed(matrix a)
{
    return (matrix){a.at, a.column, a.row};
}

/* Transposes `n` rows, `ld` apart, to out (d, width) for d < D rounded up to a vector; lanes without a row are 0. */
static void turn_rows(const float *rows, int64_t ld, int64_t n, int64_t D, float *out, int64_t width)
{
    for (int64_t d = 0; d < D; d += LANES)
        for (int64_t r = 0; r < width; r += LANES) {
            vec square[LANES];
            for (int64_t i = 0; i < LANES; i++)
                square[i] = r + i < n ? v_load(rows + (r + i) * ld + d, LANES) : v_set(0);
            turn_square(square);
            for (int64_t i = 0; i < LANES; i++)
                v_store(out + (d + i) * width + r, square[i], LANES);
        }
}

/* Caps scores (n, lanes) whose rows are ATTENTION_ROWS apart; lanes must be a multiple of 16. */
static void cap_scores(float *scores, int64_t n, int64_t lanes, tess_score_cap c)
{
    for (int64_t j = 0; j < n; j++)
        for (float *s = scores + j * ATTENTION_ROWS; s < scores + j * ATTENTION_ROWS + lanes; s += LANES)
            v_store(s, v_soft_cap(v_load(s, LANES), c.cap, c.inverse), LANES);
}

/* The first and last key that each of the 32 queries sees. Lanes without a query repeat the last query. */
typedef struct visible {
    int64_t first[ATTENTION_ROWS], last[ATTENTION_ROWS];
} visible;

static bool sees_all(const visible *keys, int64_t base, int64_t n)
{
    return keys->first[ATTENTION_ROWS - 1] <= base && keys->last[0] >= base + n - 1;
}

/* Sets the scores of keys base .. base + n that a query does not see to -inf. */
static void mask_scores(float *scores, int64_t n, int64_t base, const visible *keys)
{
    float first[ATTENTION_ROWS], last[ATTENTION_ROWS];
    for (int r = 0; r < ATTENTION_ROWS; r++) {
        first[r] = (float)min64(keys->first[r] - base, ATTENTION_KEYS);
        last[r] = (float)max64(min64(keys->last[r] - base, ATTENTION_KEYS), -1);
    }
    for (int64_t j = 0; j < n; j++)
        for (int64_t r = 0; r < ATTENTION_ROWS; r += LANES) {
            const vec key = v_set((float)j), hidden = v_set(-INFINITY);
            vec x = v_load(scores + j * ATTENTION_ROWS + r, LANES);
            x = v_select(v_less(key, v_load(first + r, LANES)), hidden, x);
            x = v_select(v_less(v_load(last + r, LANES), key), hidden, x);
            v_store(scores + j * ATTENTION_ROWS + r, x, LANES);
        }
}

#endif
