/* Losses of preference pairs, as functions of log-probabilities, for tess_token_loss (nn) with `whole` set.
 *
 * With h = (S_chosen - S_rejected), where S is the sum over the response of log p - log p_ref, or for IPO the mean:
 *   sigmoid  -(1 - e) log s(beta h) - e log s(-beta h), e: label smoothing; arXiv:2305.18290, cDPO
 *   IPO      (h - 1 / (2 beta))^2; arXiv:2310.12036, with length means as TRL has it
 *   hinge    max(0, 1 - beta h); arXiv:2305.10425 */
#ifndef TESS_RL_ALGO_RL_DPO_H
#define TESS_RL_ALGO_RL_DPO_H

#include "base/core/exact_sum.h"
#include "base/core/metric.h"
#include "tessera/status.h"

typedef enum tess_dpo_kind { TESS_DPO_SIGMOID, TESS_DPO_IPO, TESS_DPO_HINGE } tess_dpo_kind;

typedef struct tess_dpo_options {
    tess_dpo_kind kind;
    double beta;            /* > 0 */
    double label_smoothing; /* [0, 0.5), of sigmoid */
} tess_dpo_options;

/* One micro-batch: pair j is the sequences 2 j (chosen) and 2 j + 1 (rejected), as in tess_policy_rows. Borrowed. */
typedef struct tess_dpo_rows {
    int64_t n_rows, n_pairs;
    const int32_t *cu;      /* (2 n_pairs + 1) */
    const uint8_t *mask;    /* (n_rows) */
    const float *reference; /* (n_rows) log-probabilities; NULL: 0, no reference */
} tess_dpo_rows;

typedef enum tess_dpo_sum {
    TESS_DPO_SUM_LOSS,
    TESS_DPO_SUM_CHOSEN, /* rewards: beta times the pair's S */
    TESS_DPO_SUM_REJECTED,
    TESS_DPO_SUM_CHOSEN_LOGP, /* sums over the response of log p */
    TESS_DPO_SUM_REJECTED_LOGP,
    TESS_DPO_SUM_COUNT
} tess_dpo_sum;

/* All members 0: no pair was added. */
typedef struct tess_dpo_sums {
    tess_exact_sum sum[TESS_DPO_SUM_COUNT];
    int64_t n_pairs, n_right; /* right: pairs in which the chosen response has the larger reward */
} tess_dpo_sums;

enum { TESS_DPO_SUM_WORDS = TESS_DPO_SUM_COUNT * TESS_EXACT_LIMBS + 2, TESS_DPO_METRICS = 7 };

/* TESS_E_INVALID names the option that is out of its range. */
tess_status tess_dpo_options_check(const tess_dpo_options *options);

/* Adds the losses of all pairs of a micro-batch to *sums, as a sum; a step divides it by sums->n_pairs over all
 * ranks. logprob (n_rows). Writes the derivative dlogprob (n_rows), which is 0 for rows without a token. A response
 * without tokens has S = 0. TESS_E_NOT_FINITE: the message names the pair, and the results are not valid. */
tess_status tess_dpo_grade(const tess_dpo_options *options, const tess_dpo_rows *rows, const float *logprob,
                           float *dlogprob, tess_dpo_sums *sums);

/* Converts sums to words (TESS_DPO_SUM_WORDS) that ranks add as int64, and back. */
void tess_dpo_sums_pack(const tess_dpo_sums *sums, int64_t *words);
void tess_dpo_sums_unpack(const int64_t *words, tess_dpo_sums *sums);
/* Writes TESS_DPO_METRICS metrics, under the names that TRL gives them. */
void tess_dpo_metrics(const tess_dpo_sums *sums, tess_metric *out);

#endif
