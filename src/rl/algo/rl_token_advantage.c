/* Computes advantages of tokens, walking backwards through each sequence. */
#include "rl/algo/rl_advantage.h"

#include <stddef.h>

void tess_token_spread(int64_t n_seqs, const int32_t *cu, const uint8_t *mask, const double *sequence, float *token)
{
    for (int64_t s = 0; s < n_seqs; s++) {
        for (int64_t row = cu[s]; row < cu[s + 1]; row++)
            token[row] = mask[row] ? (float)sequence[s] : 0;
    }
}

static double penalty(double beta, tess_kl_kind kind, float logprob, float reference)
{
    double slope;
    return beta * tess_kl_estimate(kind, (double)logprob - reference, &slope);
}

double tess_sequence_kl(tess_kl_kind kind, int64_t n_rows, const uint8_t *mask, const float *logprob,
                        const float *reference)
{
    double sum = 0;
    for (int64_t row = 0; row < n_rows; row++)
        sum += mask[row] ? penalty(1, kind, logprob[row], reference[row]) : 0;
    return sum;
}

void tess_token_rewards(double beta, tess_kl_kind kind, int64_t n_seqs, const int32_t *cu, const uint8_t *mask,
                        const double *terminal, const float *logprob, const float *reference, float *reward)
{
    for (int64_t s = 0; s < n_seqs; s++) {
        double at_end = terminal[s]; /* the last response token gets it */
        for (int64_t row = (int64_t)cu[s + 1] - 1; row >= cu[s]; row--) {
            double r = 0;
            if (mask[row] && reference != NULL)
                r = -penalty(beta, kind, logprob[row], reference[row]);
            reward[row] = (float)(mask[row] ? r + at_end : 0);
            at_end = mask[row] ? 0 : at_end;
        }
    }
}

void tess_returns_to_go(double gamma, int64_t n_seqs, const int32_t *cu, const uint8_t *mask, const float *reward,
                        float *ret)
{
    for (int64_t s = 0; s < n_seqs; s++) {
        double next = 0;
        for (int64_t row = (int64_t)cu[s + 1] - 1; row >= cu[s]; row--) {
            next = mask[row] ? reward[row] + gamma * next : next;
            ret[row] = mask[row] ? (float)next : 0;
        }
    }
}

void tess_gae(double gamma, double lambda, int64_t n_seqs, const int32_t *cu, const uint8_t *mask, const float *reward,
              const float *value, float *advantage, float *ret)
{
    for (int64_t s = 0; s < n_seqs; s++) {
        double next_value = 0, next_advantage = 0;
        for (int64_t row = (int64_t)cu[s + 1] - 1; row >= cu[s]; row--) {
            if (mask[row]) {
                double delta = reward[row] + gamma * next_value - value[row];
                next_advantage = delta + gamma * lambda * next_advantage;
                next_value = value[row];
            }
            advantage[row] = mask[row] ? (float)next_advantage : 0;
            ret[row] = mask[row] ? (float)(next_advantage + next_value) : 0;
        }
    }
}
