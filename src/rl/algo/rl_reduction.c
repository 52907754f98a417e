/* Computes the scales and the divisor that turn the terms of a step's tokens into its loss. */
#include "rl/algo/rl_policy_loss.h"

#include <math.h>

static double step_divisor(tess_reduction_kind kind, double constant, double n_tokens, double n_sequences)
{
    switch (kind) {
    case TESS_REDUCE_TOKEN_MEAN:
        return n_tokens;
    case TESS_REDUCE_CONSTANT:
        return n_sequences * constant;
    case TESS_REDUCE_SEQ_MEAN_TOKEN_MEAN:
    case TESS_REDUCE_SEQ_MEAN_TOKEN_SUM:
        break;
    }
    return n_sequences;
}

tess_status tess_reduction_plan(tess_reduction_kind kind, double constant, const int64_t *lengths, int64_t n,
                                float *seq_scale, double *divisor)
{
    TESS_CHECK(kind != TESS_REDUCE_CONSTANT || (isfinite(constant) && constant > 0), TESS_E_INVALID,
               "reduction: the constant to divide by is %g; give the tokens of the longest response", constant);
    int64_t n_tokens = 0, n_sequences = 0;
    for (int64_t i = 0; i < n; i++) {
        TESS_CHECK(lengths[i] >= 0, TESS_E_INVALID, "reduction: sample %lld has %lld response tokens", (long long)i,
                   (long long)lengths[i]);
        n_tokens += lengths[i];
        n_sequences += lengths[i] > 0;
        bool mean = kind == TESS_REDUCE_SEQ_MEAN_TOKEN_MEAN && lengths[i] > 0;
        seq_scale[i] = mean ? 1 / (float)lengths[i] : 1;
    }
    *divisor = n_tokens > 0 ? step_divisor(kind, constant, (double)n_tokens, (double)n_sequences) : 1;
    return TESS_OK;
}
