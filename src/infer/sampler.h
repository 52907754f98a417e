/* Draws the next token from logits. Pure: the draw is a function of (seed, stream, position), never of the batch. */
#ifndef TESS_INFER_SAMPLER_H
#define TESS_INFER_SAMPLER_H

#include "tessera/memory.h"

typedef struct tess_sampling {
    double temperature; /* 0: greedy, the lowest id among equals */
    int64_t top_k;      /* 0: all */
    double top_p;       /* 1: all */
    uint64_t seed;
    double repetition_penalty; /* 0 or 1: none; see tess_sampler_draw */
    bool exact; /* reported log-probabilities are those of the policy, softmax(logits / temperature); else, and where
                   temperature is 0, of softmax(logits). See tess_sampling_inv_temperature */
} tess_sampling;

/* The 1/T of the log-probabilities that a generation reports, to the bit what a loss of that temperature has. */
static inline float tess_sampling_inv_temperature(const tess_sampling *sampling)
{
    return sampling->exact && sampling->temperature > 0 ? (float)(1 / sampling->temperature) : 1;
}

typedef struct tess_sampler tess_sampler;

tess_status tess_sampler_create(tess_mem *mem, int64_t vocab_size, tess_sampler **sampler);
void tess_sampler_destroy(tess_sampler **sampler);

/* logits (V), finite or -inf. NaN logits are TESS_E_INVALID. seen (V): the tokens of the text so far, whose logits the
 * repetition penalty divides, or multiplies where they are negative (Keskar et al. 2019, as transformers has it); NULL:
 * no penalty. */
tess_status tess_sampler_draw(tess_sampler *sampler, const tess_sampling *options, const float *logits,
                              const bool *seen, uint64_t stream, uint64_t position, int32_t *token);

#endif
