/* The exact sum of losses over tokens and ranks: the order of summation does not matter. */
#ifndef TESS_ENGINE_LOSS_H
#define TESS_ENGINE_LOSS_H

#include "base/core/exact_sum.h"
#include "device/device.h"
#include "tessera/comm.h"

/* The sum of losses, with a few counters that are reduced together with it. */
typedef struct tess_loss_sum {
    tess_exact_sum nll;
    int64_t n_tokens, n_bytes, flag, news, leave;
} tess_loss_sum;

/* Adds up losses on a stream. begin clears the sum, add enqueues the additions, end waits for them. */
typedef struct tess_loss_meter {
    tess_stream *stream;
    tess_exact_sum *nll; /* sum on the device */
    float *logprobs;     /* (max_tokens) for the log-probabilities of a pass, on the device */
} tess_loss_meter;

/* max_tokens: largest number of tokens in a pass */
tess_status tess_loss_meter_create(tess_stream *stream, int64_t max_tokens, tess_loss_meter *meter);
void tess_loss_meter_destroy(tess_loss_meter *meter);
tess_status tess_loss_begin(const tess_loss_meter *meter);
/* Adds the losses of n tokens. logprobs (n) are in device memory. Tokens whose target (n, in host memory) is -1 have
 * logprob 0 and do not count. */
tess_status tess_loss_add(const tess_loss_meter *meter, tess_loss_sum *sum, const float *logprobs,
                          const int32_t *targets, int64_t n);
/* Sets sum->nll to the sum of what was added since begin. */
tess_status tess_loss_end(const tess_loss_meter *meter, tess_loss_sum *sum);
/* Computes the mean loss. loss: nats per token; there must be at least one token. bits_per_byte: 0 if the number of
 * bytes of text is unknown. */
void tess_loss_score(const tess_loss_sum *sum, double *loss, double *perplexity, double *bits_per_byte);
/* Adds the sums of all ranks. Collective.
 * TESS_E_MISMATCH: the ranks passed different values of `tag` */
tess_status tess_loss_all_reduce(tess_team *team, tess_loss_sum *sum, uint64_t tag);

#endif
