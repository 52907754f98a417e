/* Online softmax for the tiled forward pass (16 query rows, one per lane) and for generation. Both use the same
 * functions, so the order of operations is the same. */
#ifndef TESS_DEVICE_CPU_ATTENTION_SOFTMAX_AMX_H
#define TESS_DEVICE_CPU_ATTENTION_SOFTMAX_AMX_H

#include "device/cpu/attention_products_amx.h"
#include "device/ref/ref_attention.h"

/* The softmax state of 16 query rows. */
typedef struct softmax_lanes {
    __m512 m, l;       /* base of the exponents, in units of log 2 (-inf: none yet); sum of exponentials */
    __m512 correction; /* factor for the sums before the newest block; usually 1 */
} softmax_lanes;

/* Returns the number of times that softmax_block calls products_advance. */
static inline int64_t softmax_calls(int64_t n_keys)
{
    return n_keys / 2 + n_keys / TILE_ROWS;
}

/* sinks: scores that are summed before the first keys, if `a` has sinks. */
static inline softmax_lanes softmax_begin(const tess_attention *a, __m512 sinks)
{
    const __m512 one = _mm512_set1_ps(1);
    if (a->sinks == NULL)
        return (softmax_lanes){_mm512_set1_ps(-__builtin_inff()), _mm512_setzero_ps(), one};
    return (softmax_lanes){_mm512_mul_ps(sinks, _mm512_set1_ps(0x1.715476p+0f)), one, one};
}

/* Caps n scores, a multiple of 16. */
static inline void cap_scores(float *scores, int64_t n, tess_score_cap c)
{
    for (int64_t i = 0; i < n; i += 16)
        _mm512_store_ps(scores + i, v_soft_cap(_mm512_load_ps(scores + i), c.cap, c.inverse));
}

static inline __m512 softmax_lse(const softmax_lanes *x)
{
    return _mm512_fmadd_ps(x->m, _mm512_set1_ps(0x1.62e430p-1f), v_log(x->l));
}

/* Updates the base of the exponents. A lane's m changes only if its largest score is more than 2^8 times as large.
 * Probabilities keep their precision and sums stay in range, and earlier sums need no correction in nearly every block.
 * A lane that sees none of the keys does not change at all. *base: m, or 0 where there is none yet. True: some lane's m
 * changed. */
static inline bool softmax_move(softmax_lanes *x, __m512 most, __m512 *base)
{
    const __m512 none = _mm512_set1_ps(-__builtin_inff());
    const __mmask16 moves = _mm512_cmp_ps_mask(most, _mm512_add_ps(x->m, _mm512_set1_ps(8)), _CMP_GT_OQ);
    const __m512 m = _mm512_mask_mov_ps(x->m, moves, most);
    *base = _mm512_mask_mov_ps(m, _mm512_cmp_ps_mask(m, none, _CMP_EQ_OQ), _mm512_setzero_ps());
    x->correction = exp2_bf16(_mm512_sub_ps(x->m, *base));
    x->m = m;
    x->l = _mm512_mul_ps(x->l, x->correction);
    return moves != 0;
}

/* Finds the largest score of each lane, times scale. */
static inline __attribute__((always_inline)) void softmax_largest(const float *scores, int groups, int64_t n,
                                                                  __m512 scale, __m512 *most, product_stream *products)
{
    __m512 top[2][2];
    for (int g = 0; g < groups; g++)
        top[g][0] = top[g][1] = _mm512_set1_ps(-__builtin_inff());
    for (int64_t t = 0; t < n / TILE_ROWS; t++) {
        products_advance(products);
        for (int i = 0; i < TILE_ROWS; i++)
            for (int g = 0; g < groups; g++)
                top[g][i % 2] =
                    _mm512_max_ps(top[g][i % 2], _mm512_load_ps(scores + (t * groups + g) * TILE_FLOATS + i * 16));
    }
    for (int g = 0; g < groups; g++)
        most[g] = _mm512_mul_ps(_mm512_max_ps(top[g][0], top[g][1]), scale);
}

/* Turns the raw scores of n keys (32 or 64) by `groups` times 16 rows, as C tiles (keys, groups), into probabilities as
 * B tiles (steps of keys, groups), while `products` advances. True: the correction of some lane is not 1. */
static inline __attribute__((always_inline)) bool softmax_block(const float *scores, int groups, int64_t n,
                                                                float scale_log2, softmax_lanes *x, uint16_t *p,
                                                                product_stream *products)
{
    const __m512 scale = _mm512_set1_ps(scale_log2);
    __m512 most[2], base[2], sum[2][2];
    bool moved = false;
    softmax_largest(scores, groups, n, scale, most, products);
    for (int g = 0; g < groups; g++) {
        moved |= softmax_move(&x[g], most[g], &base[g]);
        sum[g][0] = sum[g][1] = _mm512_setzero_ps();
    }
    for (int64_t j = 0; j < n; j += 2) {
        products_advance(products);
        for (int g = 0; g < groups; g++) {
            const float *at = scores + (j / TILE_ROWS * groups + g) * TILE_FLOATS + j % TILE_ROWS * 16;
            const __m512 even = exp2_bf16(_mm512_fmsub_ps(_mm512_load_ps(at), scale, base[g]));
            const __m512 odd = exp2_bf16(_mm512_fmsub_ps(_mm512_load_ps(at + 16), scale, base[g]));
            sum[g][0] = _mm512_add_ps(sum[g][0], even);
            sum[g][1] = _mm512_add_ps(sum[g][1], odd);
            _mm512_store_si512((void *)(p + (j / TILE_K * groups + g) * TILE_BF16 + j % TILE_K / 2 * TILE_K),
                               pair_bits(round_bits(even), round_bits(odd)));
        }
    }
    for (int g = 0; g < groups; g++)
        x[g].l = _mm512_add_ps(x[g].l, _mm512_add_ps(sum[g][0], sum[g][1]));
    tess_tiles_fence();
    return moved;
}

#endif
