/* The online softmax of one row (Milakov & Gimelshein, arXiv:1805.02867):
 *   m = the largest score so far,  l = sum of exp(score - m),  o (D) = sum of exp(score - m) v,  result = o / l
 * The includer defines `real`, real_exp, real_fma and real_max, so that tests run the same arithmetic in double. */
#ifndef TESS_DEVICE_REF_ONLINE_SOFTMAX_H
#define TESS_DEVICE_REF_ONLINE_SOFTMAX_H

#include <math.h>
#include <stdint.h>

/* A row's state: m, l, then o (D). */
enum { SOFTMAX_M, SOFTMAX_L, SOFTMAX_O };

/* Starts with the score of a sink, or with none. */
static inline void softmax_begin(real *state, int64_t D, bool has_sink, real sink)
{
    state[SOFTMAX_M] = has_sink ? sink : -(real)INFINITY;
    state[SOFTMAX_L] = has_sink ? 1 : 0;
    for (int64_t d = 0; d < D; d++)
        state[SOFTMAX_O + d] = 0;
}

/* Merges n more scores into m, l and o, from score[begin] on, and turns them into exp(score - m). The caller then adds
 * their values to o. */
static inline void softmax_merge(real *state, int64_t D, real *score, int64_t begin, int64_t end)
{
    real m = state[SOFTMAX_M], sum[4] = {0, 0, 0, 0}; /* sum[j % 4] includes score j */
    for (int64_t j = begin; j < end; j++)
        m = real_max(m, score[j]);
    const real correction = real_exp(state[SOFTMAX_M] - m);
    for (int64_t d = 0; d < D; d++)
        state[SOFTMAX_O + d] *= correction;
    for (int64_t j = begin; j < end; j++) {
        score[j] = real_exp(score[j] - m);
        sum[j % 4] += score[j];
    }
    state[SOFTMAX_L] = real_fma(state[SOFTMAX_L], correction, (sum[0] + sum[1]) + (sum[2] + sum[3]));
    state[SOFTMAX_M] = m;
}

/* o += p v. */
static inline void softmax_add(real *state, int64_t d, real p, real v)
{
    state[SOFTMAX_O + d] = real_fma(p, v, state[SOFTMAX_O + d]);
}

static inline real softmax_result(const real *state, int64_t d)
{
    return state[SOFTMAX_O + d] / state[SOFTMAX_L];
}

#endif
