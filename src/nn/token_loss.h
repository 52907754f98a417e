/* The loss of training as an object, where it is not the sum of -log p(target). Modules above nn provide it; the
 * head calls it between a chunk's logits and their gradient. */
#ifndef TESS_NN_TOKEN_LOSS_H
#define TESS_NN_TOKEN_LOSS_H

#include <stdbool.h>

#include "tessera/status.h"

/* A loss that is a function of log p(target) and of the entropy of p at each row of a micro-batch, with p =
 * softmax(logits / T). Backward needs only its derivatives with respect to these two.
 *
 * grade: receives logprob (n) and entropy (n) of rows begin .. begin+n, n > 0. Writes the loss's derivatives with
 * respect to them to dlogprob (n) and dentropy (n), which are 0 before the call. For the loss -log p, dlogprob is
 * -1. Rows without a target have logprob and entropy 0; values written for them are ignored. The arrays are host
 * memory, valid during the call. It runs on the thread of tess_executor_train. Its error ends the micro-batch and
 * becomes the error of tess_executor_train.
 *
 * whole: the loss of a row depends on other rows (GSPO, DPO, means over a sequence). grade is then called once, with
 * all rows of the micro-batch. The head's product runs twice, and logits still exist for a chunk of rows at a time.
 * If `whole` is false, grade is called for one chunk at a time, rows ascending; its result must not depend on the
 * size of a chunk. It is not called for a micro-batch without tokens.
 *
 * grade_values: the same for the outputs of a value head (tess_model_config.n_outputs 1, or value_head). It receives
 * value (n) of all rows of the micro-batch and writes the loss's derivatives with respect to them to dvalue (n),
 * which are 0 before the call. Rows without a target have values like all others, and values written for them count.
 *
 * A language model's loss has grade. A language model with a value head needs both, and a value model only
 * grade_values. */
typedef struct tess_token_loss {
    void *self;
    float inv_temperature; /* 1 / T, finite and above 0; read only if there is a grade */
    bool whole;
    tess_status (*grade)(void *self, int64_t begin, int64_t n, const float *logprob, const float *entropy,
                         float *dlogprob, float *dentropy);
    tess_status (*grade_values)(void *self, int64_t n, const float *value, float *dvalue);
    /* factor of the auxiliary losses of routers, which count once for each target; 0: training has none. Without a
     * token loss it is 1 */
    float routers;
} tess_token_loss;

#endif
