/* Turns rewards into advantages. Every rank has the rewards of all samples of a step and computes the same, in
 * double.
 *
 * A sample's reward may be missing (`scored` is false: its grader failed). Such a sample is left out of every mean
 * and deviation, and its advantage is 0. Deviations are unbiased (n - 1). Groups are consecutive runs of samples of
 * one prompt. */
#ifndef TESS_RL_ALGO_RL_ADVANTAGE_H
#define TESS_RL_ALGO_RL_ADVANTAGE_H

#include <stdbool.h>

#include "rl/algo/rl_kl.h"
#include "tessera/status.h"

/* The formulas, with the mean and deviation of a group's scored rewards: */
typedef enum tess_advantage_kind {
    TESS_ADV_GRPO,         /* (r - mean) / (std + eps); DeepSeekMath, arXiv:2402.03300 */
    TESS_ADV_DR_GRPO,      /* r - mean; arXiv:2503.20783 */
    TESS_ADV_RLOO,         /* r - mean of the others = n / (n - 1) (r - mean); arXiv:2402.14740 */
    TESS_ADV_BATCH_STD,    /* (r - mean) / (std of all of the step's rewards + eps) */
    TESS_ADV_REINFORCE_PP, /* r; advantages of tokens follow (tess_token_rewards, tess_returns_to_go, tess_whiten) */
    TESS_ADV_REINFORCE_PP_BASELINE, /* r - mean; advantages of tokens follow (tess_token_spread, tess_whiten);
                                     * arXiv:2501.03262 */
    TESS_ADV_GAE                    /* r; advantages of tokens follow (tess_token_rewards, tess_gae, tess_whiten) */
} tess_advantage_kind;

/* Computes one advantage per sample. reward (n); scored (n), NULL: all; group (n_groups + 1) ascends from 0 to n;
 * advantage (n, written). Kinds with a mean give exactly 0 if all rewards of a group are equal. A group with a
 * single scored reward has no baseline, and its advantage is the reward. TESS_E_INVALID: the groups do not cover the
 * samples; TESS_E_NOT_FINITE names the sample whose reward is not finite. */
tess_status tess_group_advantages(tess_advantage_kind kind, double eps, const double *reward, const bool *scored,
                                  int64_t n, const int64_t *group, int64_t n_groups, double *advantage);

/* Returns DAPO's penalty of long responses, which is added to the reward: 0 up to max_length - buffer tokens, then
 * falling linearly. It is -factor at max_length and continues to fall beyond. buffer > 0. */
double tess_overlong_penalty(int64_t length, int64_t max_length, int64_t buffer, double factor);
/* Advantages of tokens. Sequence i is rows [cu[i], cu[i + 1]); the caller passes any number of sequences. mask
 * (rows) is 1 for response tokens. Other tokens (prompt, output of tools) are no time steps: recurrences skip them,
 * and their results are 0. For a sequence whose reward is missing, the caller passes a mask of zeros here and to the
 * moments that whiten. Its advantages are then 0, whatever mask the loss has. */

/* token[row] = sequence[i]. */
void tess_token_spread(int64_t n_seqs, const int32_t *cu, const uint8_t *mask, const double *sequence, float *token);
/* The sum of KL(log p, log p_ref) over a sequence's response tokens. Source: verl, apply_kl_penalty, which subtracts
 * beta times it from the reward before any baseline. */
double tess_sequence_kl(tess_kl_kind kind, int64_t n_rows, const uint8_t *mask, const float *logprob,
                        const float *reference);
/* reward[row] = -beta KL(log p, log p_ref), plus terminal[i] at the sequence's last response token. logprob comes
 * from the policy that drew the token. reference NULL: no KL. */
void tess_token_rewards(double beta, tess_kl_kind kind, int64_t n_seqs, const int32_t *cu, const uint8_t *mask,
                        const double *terminal, const float *logprob, const float *reference, float *reward);
/* ret_t = reward_t + gamma ret_{t+1}. Input and output may be the same array. */
void tess_returns_to_go(double gamma, int64_t n_seqs, const int32_t *cu, const uint8_t *mask, const float *reward,
                        float *ret);
/* Generalised advantage estimation (arXiv:1506.02438), a sequence being an episode:
 *   delta_t = reward_t + gamma value_{t+1} - value_t, advantage_t = delta_t + gamma lambda advantage_{t+1}
 * and ret_t = advantage_t + value_t, the target of the value. */
void tess_gae(double gamma, double lambda, int64_t n_seqs, const int32_t *cu, const uint8_t *mask, const float *reward,
              const float *value, float *advantage, float *ret);

#endif
