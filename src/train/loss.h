/* The loss of many tokens over all ranks, exact: no order of summation can change a bit. */
#ifndef TESS_TRAIN_LOSS_H
#define TESS_TRAIN_LOSS_H

#include "base/core/exact_sum.h"
#include "tessera/comm.h"

/* With a few counters beside it. */
typedef struct tess_loss_sum {
    tess_exact_sum nll;
    int64_t n_tokens, n_bytes, flag, news, leave;
} tess_loss_sum;

/* logprobs, targets (n); tokens with target -1 do not count. */
void tess_loss_add(tess_loss_sum *sum, const float *logprobs, const int32_t *targets, int64_t n);
/* Nats a token, of which there is one at least; e to that; bits a byte of text, 0 where its bytes are not known. */
void tess_loss_score(const tess_loss_sum *sum, double *loss, double *perplexity, double *bits_per_byte);
/* Collective. */
tess_status tess_loss_all_reduce(tess_team *team, tess_loss_sum *sum);

#endif
