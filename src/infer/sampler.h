/* Draws next tokens from logits. Pure: a draw is a function of (seed, id, position) and the row, never of the batch. */
#ifndef TESS_INFER_SAMPLER_H
#define TESS_INFER_SAMPLER_H

#include "base/os/threads.h"

typedef struct tess_sampling {
    double temperature; /* 0: greedy, the lowest id among equals */
    int64_t top_k;      /* 0: all */
    double top_p;       /* 1: all */
    uint64_t seed;
    double repetition_penalty; /* 0 or 1: none */
    double min_p;              /* tokens with at least this share of the likeliest's probability; 0: all */
    bool exact; /* log-probabilities are those of the distribution that is drawn from, softmax(logits / temperature), as
                   RL needs them: nothing may be left out of it. Else, and when greedy, of softmax(logits) */
} tess_sampling;

/* The factor of the logits whose softmax log-probabilities are of: as tess_token_loss has it. */
float tess_sampling_inv_temperature(const tess_sampling *options);

/* TESS_E_INVALID names the value that is not possible. */
tess_status tess_sampling_check(const tess_sampling *options);

/* One row. */
typedef struct tess_draw {
    const float *logits; /* (V), finite or -inf */
    const int32_t *text; /* (n_text) tokens so far, whose logits the repetition penalty divides, or multiplies where
                            they are negative (Keskar et al. 2019, as transformers has it) */
    int64_t n_text;
    uint64_t id, position;
    int32_t token; /* the token that was drawn */
} tess_draw;

typedef struct tess_sampler tess_sampler;

/* threads: each draws rows of its own. Borrowed. */
tess_status tess_sampler_create(tess_mem *mem, tess_threads *threads, int64_t vocab_size, tess_sampler **sampler);
void tess_sampler_destroy(tess_sampler **sampler);

/* If there are no limits, the draw walks the vocabulary by ids and reads a row from memory once. Otherwise it walks the
 * tokens that are left, the likeliest first. TESS_E_INVALID: a logit that is NaN or +inf, or no token that is possible.
 */
tess_status tess_sampler_draw(tess_sampler *sampler, const tess_sampling *options, tess_draw *draws, int64_t n);

#endif
