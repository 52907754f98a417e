/* Draws next tokens from logits. A draw is a pure function of (seed, id, position) and the row; it does not depend
 * on the batch. */
#ifndef TESS_INFER_SAMPLER_H
#define TESS_INFER_SAMPLER_H

#include "base/os/threads.h"

typedef struct tess_sampling {
    double temperature; /* 0: greedy; among equal logits the lowest id */
    int64_t top_k;      /* 0: all tokens */
    double top_p;       /* 1: all tokens */
    uint64_t seed;
    double repetition_penalty; /* 0 or 1: no penalty */
    double min_p;              /* keep tokens with at least this share of the likeliest token's probability; 0: all */
    /* true: log-probabilities are those of the distribution from which tokens are drawn, softmax(logits /
     * temperature), as RL needs them: no limit may exclude tokens. If false, or greedy: those of softmax(logits) */
    bool exact;
} tess_sampling;

/* Returns the factor of the logits for log-probabilities, as in tess_token_loss. */
float tess_sampling_inv_temperature(const tess_sampling *options);

/* Checks the options. TESS_E_INVALID: the message names the invalid value. */
tess_status tess_sampling_check(const tess_sampling *options);

/* One row of logits, and the token drawn from it. */
typedef struct tess_draw {
    const float *logits; /* (V), finite or -inf */
    /* (n_text) tokens so far. The repetition penalty divides their logits, or multiplies them if they are negative
     * (Keskar et al. 2019, as in transformers) */
    const int32_t *text;
    int64_t n_text;
    uint64_t id, position;
    int32_t token; /* the token that was drawn */
} tess_draw;

typedef struct tess_sampler tess_sampler;

/* Creates a sampler. Borrows `threads`; each thread draws separate rows. */
tess_status tess_sampler_create(tess_mem *mem, tess_threads *threads, int64_t vocab_size, tess_sampler **sampler);
void tess_sampler_destroy(tess_sampler **sampler);

/* Draws a token for each of n rows. Without limits it walks the vocabulary by ids and reads a row from memory once.
 * With limits it walks the remaining tokens, the likeliest first.
 * TESS_E_INVALID: a logit is NaN or +inf, or no token is possible */
tess_status tess_sampler_draw(tess_sampler *sampler, const tess_sampling *options, tess_draw *draws, int64_t n);

#endif
