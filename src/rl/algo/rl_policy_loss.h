/* The losses of policy gradients, as functions of a token's log-probability and entropy, for tess_token_loss (nn).
 * Pure functions that compute in double and take and return floats. exp and log are the C library's.
 *
 * With r = exp(log p - log p_old), clamped to exp(+-20), advantage A,
 * clip(r) = r clamped to [1 - clip_low, 1 + clip_high]:
 *   PPO        max(-r A, -clip(r) A); GRPO, DAPO, RLOO, ... differ in the advantage alone. Schulman et al.,
 *              arXiv:1707.06347; unequal clips: DAPO, arXiv:2503.14476
 *   dual clip  where A < 0: min(-c A, the above); Ye et al., arXiv:1912.09729
 *   GSPO       PPO with r = exp(mean over the sequence of log p - log p_old); Zheng et al., arXiv:2507.18071. The
 *              derivative is that of its token form: with one A a sequence the two are the same
 *   CISPO      -clip(r) A log p, clip(r) a constant; MiniMax-M1, arXiv:2506.13585
 *   REINFORCE  -A log p
 * times a constant factor if another policy has drawn the tokens, with w = exp(log p_old - log p_rollout):
 *   TIS            w clamped to [correction_low, correction_high]
 *   IcePop         w, and 0 outside
 *   sequence mask  w, and 0 for a sequence whose geometric mean of w is outside
 *   OPSM           0 for a sequence with mean(log p_old - log p) > opsm_delta, where A < 0 (DeepSeek-V3.2)
 * and + kl_beta KL (rl_kl.h) - entropy_coef H. Derivatives are those of torch's autograd; if two branches of a
 * maximum are equal, each counts half, and the derivative of a clip is 0 on its bounds (torch 2.15).
 */
#ifndef TESS_RL_ALGO_RL_POLICY_LOSS_H
#define TESS_RL_ALGO_RL_POLICY_LOSS_H

#include <stdbool.h>

#include "base/core/exact_sum.h"
#include "base/core/metric.h"
#include "rl/algo/rl_kl.h"
#include "tessera/status.h"

typedef enum tess_policy_kind {
    TESS_POLICY_PPO,
    TESS_POLICY_GSPO,
    TESS_POLICY_CISPO,
    TESS_POLICY_REINFORCE
} tess_policy_kind;

typedef enum tess_correction {
    TESS_CORRECT_NONE,
    TESS_CORRECT_TIS,
    TESS_CORRECT_ICEPOP,
    TESS_CORRECT_SEQUENCE_MASK
} tess_correction;

/* How the terms of a step's response tokens become one number. */
typedef enum tess_reduction_kind {
    TESS_REDUCE_TOKEN_MEAN,          /* mean over all tokens */
    TESS_REDUCE_SEQ_MEAN_TOKEN_MEAN, /* mean over sequences of the mean over a sequence's tokens */
    TESS_REDUCE_SEQ_MEAN_TOKEN_SUM,  /* mean over sequences of the sum over a sequence's tokens */
    TESS_REDUCE_CONSTANT             /* mean over sequences of the sum / constant (Dr. GRPO, arXiv:2503.20783) */
} tess_reduction_kind;

typedef struct tess_policy_options {
    tess_policy_kind kind;
    double clip_low, clip_high; /* >= 0; clip_low >= 1: no lower clip */
    double dual_clip;           /* c > 1; 0: none */
    double kl_beta;             /* 0: the KL is not part of the loss; it is still measured if there is a reference */
    tess_kl_kind kl;
    double entropy_coef;
    tess_correction correction;
    double correction_low, correction_high;
    double opsm_delta; /* 0: off */
    tess_reduction_kind reduction;
    double constant; /* constant of TESS_REDUCE_CONSTANT: tokens of the longest response */
} tess_policy_options;

/* One micro-batch of whole sequences. Sequence i is rows [cu[i], cu[i + 1]); rows after cu[n_seqs] have no tokens.
 * The arrays are borrowed. */
typedef struct tess_policy_rows {
    int64_t n_rows, n_seqs;
    const int32_t *cu;            /* (n_seqs + 1) ascending, from 0 */
    const uint8_t *mask;          /* (n_rows) 1: the policy produced the token that the row predicts */
    const float *advantage;       /* (n_rows) */
    const float *old_logprob;     /* (n_rows) log-probabilities by the weights that the step began with */
    const float *rollout_logprob; /* (n_rows) log-probabilities by the weights that drew the token; NULL: old_logprob */
    const float *reference;       /* (n_rows) log-probabilities; NULL: no KL */
    const float *seq_scale;       /* (n_seqs) factor of a token's term; NULL: 1 */
} tess_policy_rows;

/* The exact sums and counts over tokens from which a step's loss and metrics are computed. All members 0: no token
 * was added. */
typedef enum tess_policy_sum {
    TESS_POLICY_SUM_PG,       /* terms of the policy gradient, times seq_scale */
    TESS_POLICY_SUM_KL,       /* KL to the reference, times seq_scale */
    TESS_POLICY_SUM_H,        /* entropy, times seq_scale */
    TESS_POLICY_SUM_TOKEN_KL, /* KL to the reference */
    TESS_POLICY_SUM_TOKEN_H,  /* entropy */
    TESS_POLICY_SUM_EXCESS,   /* r - 1 */
    TESS_POLICY_SUM_EXCESS_SQUARED,
    TESS_POLICY_SUM_OLD_K1,       /* log p_old - log p */
    TESS_POLICY_SUM_APPROX_KL,    /* r - 1 - log r */
    TESS_POLICY_SUM_REFERENCE_K1, /* log p - log p_ref */
    TESS_POLICY_SUM_DIFF,         /* |log p - log p_rollout| */
    TESS_POLICY_SUM_W,            /* exp(log p_old - log p_rollout), before limits */
    TESS_POLICY_SUM_W_USED,       /* the factor of the term */
    TESS_POLICY_SUM_W_ABS,        /* |w - 1| */
    TESS_POLICY_SUM_ADVANTAGE,
    TESS_POLICY_SUM_ADVANTAGE_SQUARED,
    TESS_POLICY_SUM_PULL_SQUARED,    /* squares of the policy gradient's derivative by log p */
    TESS_POLICY_SUM_KL_PULL_SQUARED, /* squares of kl_beta times the KL's derivative */
    TESS_POLICY_SUM_COUNT
} tess_policy_sum;

typedef enum tess_policy_count {
    TESS_POLICY_N_TOKENS,
    TESS_POLICY_N_CLIP_LOW, /* tokens for which the lower clip is the larger branch */
    TESS_POLICY_N_CLIP_HIGH,
    TESS_POLICY_N_DUAL_CLIP,
    TESS_POLICY_N_W_CLIPPED, /* tokens whose w was limited or became 0 */
    TESS_POLICY_N_OPSM,      /* tokens that OPSM dropped */
    TESS_POLICY_N_DIFFER,    /* log p and log p_rollout differ in their bits */
    TESS_POLICY_N_REFERENCE, /* tokens with a reference */
    TESS_POLICY_N_COUNT
} tess_policy_count;

typedef enum tess_policy_max {
    TESS_POLICY_MAX_RATIO,
    TESS_POLICY_MAX_DIFF,
    TESS_POLICY_MAX_W,
    TESS_POLICY_MAX_COUNT
} tess_policy_max;

typedef struct tess_policy_sums {
    tess_exact_sum sum[TESS_POLICY_SUM_COUNT];
    int64_t count[TESS_POLICY_N_COUNT];
    float max[TESS_POLICY_MAX_COUNT]; /* >= 0; ranks reduce them by maximum */
} tess_policy_sums;

enum {
    TESS_POLICY_SUM_WORDS = TESS_POLICY_SUM_COUNT * TESS_EXACT_LIMBS + TESS_POLICY_N_COUNT,
    TESS_POLICY_METRICS_MAX = 32
};

/* Converts sums and counts, without `max`, to words that ranks add (int64, all_reduce TESS_SUM). */
void tess_policy_sums_pack(const tess_policy_sums *sums, int64_t *words /* (TESS_POLICY_SUM_WORDS) */);
/* Sets sums and counts from the added words of up to 2^30 ranks, and leaves `max` unchanged. */
void tess_policy_sums_unpack(const int64_t *words, tess_policy_sums *sums);

/* TESS_E_INVALID names the option that is out of its range. */
tess_status tess_policy_options_check(const tess_policy_options *options);

/* Whether a row's derivative depends on the log-probabilities of other rows (GSPO, OPSM). tess_policy_grade then
 * needs all rows of the micro-batch in one call. */
bool tess_policy_needs_whole(const tess_policy_options *options);

/* Computes a step's reduction from the response lengths of all its samples, the same on all ranks: loss = sum over
 * tokens of seq_scale[sequence] * term / *divisor. A sequence without response tokens adds nothing to the sum or to
 * the divisor. lengths (n), seq_scale (n, written). *divisor is 1 if no sequence has tokens. TESS_E_INVALID names a
 * negative length, or a constant that is not above 0. */
tess_status tess_reduction_plan(tess_reduction_kind kind, double constant, const int64_t *lengths, int64_t n,
                                float *seq_scale, double *divisor);

/* Adds the losses of rows [begin, begin + n) of a micro-batch to *sums, before the division. logprob (n) and entropy
 * (n) belong to these rows. Writes the derivatives dlogprob (n) and dentropy (n), which are 0 for rows without a
 * token. Derivatives and sums have the same bits, however rows are split over calls and sequences over
 * micro-batches. TESS_E_INVALID: rows outside the micro-batch, or only some rows if all are needed.
 * TESS_E_NOT_FINITE: the message names the row and the input, and the results are not valid. Thread-safe for
 * distinct sums. */
tess_status tess_policy_grade(const tess_policy_options *options, const tess_policy_rows *rows, int64_t begin,
                              int64_t n, const float *logprob, const float *entropy, float *dlogprob, float *dentropy,
                              tess_policy_sums *sums);

/* Returns the step's loss: pg_loss + kl_beta * kl_loss - entropy_coef * entropy. */
double tess_policy_loss(const tess_policy_options *options, const tess_policy_sums *sums, double divisor);

/* Writes a step's metrics under slime's names, from the sums of all ranks. loss, pg_loss, kl_loss and entropy_loss
 * are reduced as the loss is; all others (also kl and entropy) are means or shares over tokens, or maxima. Metrics
 * of a reference, a correction and OPSM are included if these are in use. Writes at most TESS_POLICY_METRICS_MAX to
 * `out` and returns their number.
 */
int tess_policy_metrics(const tess_policy_options *options, const tess_policy_sums *sums, double divisor,
                        tess_metric *out);

#endif
