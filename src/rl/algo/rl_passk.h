/* The metric pass@k. */
#ifndef TESS_RL_ALGO_RL_PASSK_H
#define TESS_RL_ALGO_RL_PASSK_H

#include <stdint.h>

/* The probability that of k samples drawn without replacement from n, of which `correct` are right, at least one is:
 * 1 - C(n - correct, k) / C(n, k), unbiased for k samples of the model (Chen et al., arXiv:2107.03374). NaN unless
 * 1 <= k <= n and 0 <= correct <= n. */
double tess_pass_at_k(int64_t n, int64_t correct, int64_t k);

#endif
