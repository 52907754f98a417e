/* Estimates of KL(policy | reference) from one token's log-probabilities, and the controller of their weight.
 *
 * With d = log p - log p_ref of a token that the policy drew (Schulman, "Approximating KL divergence", 2020):
 *   k1 = d                 unbiased; its derivative by log p is 1, whose expectation is 0, so it serves in rewards only
 *   k2 = d^2 / 2           biased, its derivative d is that of the KL
 *   k3 = e^-d - 1 + d      unbiased and never negative; clamped to at most 10, where its derivative is 0 */
#ifndef TESS_RL_ALGO_RL_KL_H
#define TESS_RL_ALGO_RL_KL_H

#include <stdint.h>

typedef enum tess_kl_kind { TESS_KL_K1, TESS_KL_K2, TESS_KL_K3 } tess_kl_kind;

/* Returns e^x with x clamped to +-20, so that no ratio of probabilities, and no product with it, overflows. */
double tess_safe_exp(double x);

/* Returns the estimate, and sets *slope to its derivative by log p. In k3's exponential d is clamped to +-20. */
double tess_kl_estimate(tess_kl_kind kind, double d, double *slope);

/* Adapts the weight of the KL so that the KL stays at `target` (Ziegler et al., arXiv:1909.08593). After n samples:
 *   beta *= 1 + clip(kl / target - 1, +-0.2) * n / horizon. */
typedef struct tess_kl_controller {
    double beta;
    double target;  /* target of the mean KL, > 0 */
    double horizon; /* horizon in samples, > 0 */
} tess_kl_controller;

void tess_kl_controller_update(tess_kl_controller *controller, double kl, int64_t n);

#endif
