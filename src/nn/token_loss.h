/* A loss as an object: what training minimises where that is not the sum of -log p(target). Filled by those above nn;
 * the head asks it between a chunk's logits and their gradient. */
#ifndef TESS_NN_TOKEN_LOSS_H
#define TESS_NN_TOKEN_LOSS_H

#include <stdbool.h>

#include "tessera/status.h"

/* A loss that is a function of log p(target) and of the entropy of p at each row of a micro-batch, with
 * p = softmax(logits / T). Its derivatives by them say all that backward needs.
 *
 * grade: given logprob (n) and entropy (n) of rows begin .. begin+n, n > 0, writes the loss's derivatives by them to
 * dlogprob (n) and dentropy (n), which are 0 when it is called. -log p is dlogprob -1. Rows without a target have
 * logprob and entropy 0, and what is written for them is not read. Memory of the host, valid during the call, which is
 * made on the thread of tess_executor_train. Its error ends the micro-batch and is that of tess_executor_train.
 *
 * whole: the loss of a row depends on other rows (GSPO, DPO, means over a sequence). grade is called once, with all
 * rows of the micro-batch: the head's product runs twice, and logits exist for a chunk of rows at a time as ever. Else
 * it is called for a chunk at a time, rows ascending; how many rows a chunk has must not matter to it. It is not called
 * for a micro-batch without tokens.
 *
 * grade_values: the same of what a value head says (tess_model_config.n_outputs 1, or value_head): given value (n) of
 * all rows of the micro-batch, writes the loss's derivatives by them to dvalue (n), which are 0 when it is called. Rows
 * without a target have values like all others, and what is written for them counts.
 *
 * A language model's loss has grade; one with a value head next to it has both, and a value model's has grade_values
 * alone. */
typedef struct tess_token_loss {
    void *self;
    float inv_temperature; /* 1 / T, finite and above 0; not read without grade */
    bool whole;
    tess_status (*grade)(void *self, int64_t begin, int64_t n, const float *logprob, const float *entropy,
                         float *dlogprob, float *dentropy);
    tess_status (*grade_values)(void *self, int64_t n, const float *value, float *dvalue);
} tess_token_loss;

#endif
