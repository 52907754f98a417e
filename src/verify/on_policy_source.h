/* Provides a model with its weights in both precisions, and prompts for it. `verify on-policy` takes them from a
 * model's folder or a run's configuration. */
#ifndef TESS_VERIFY_ON_POLICY_SOURCE_H
#define TESS_VERIFY_ON_POLICY_SOURCE_H

#include "base/mem/scoped.h"
#include "data/tokenizer/tokenizer.h"
#include "config/config.h"
#include "verify/on_policy.h"
#include "engine/model/weights.h"

/* Free it with tess_on_policy_source_close, also after a failure. */
typedef struct tess_on_policy_source {
    tess_mem *mem;
    tess_scope own; /* the random weights */
    tess_model_config config;
    tess_model *model;
    const void *const *w[2]; /* weights, as in tess_on_policy_plan */
    tess_dtype dtype;        /* dtype of the folder's files, or the dtype in which the run computes */
    char tokenizer[1024];    /* path of the tokenizer for prompts; "": none */
    tess_stream *stream;
    tess_weights *weights[2];
    void **random[2]; /* (n_params) weights, if they are initial values */
    tess_on_policy_prompt *prompts;
    int n_prompts;
    tess_ids *ids; /* (n_prompts) token ids that the prompts point to */
} tess_on_policy_source;

/* Loads a model's folder: config.json and weights. max_length: limit of positions; 0: the model's limit. */
tess_status tess_on_policy_open_folder(tess_mem *mem, const char *folder, int64_t max_length, int n_threads,
                                       const tess_reporter *reporter, tess_on_policy_source *source);
/* Makes the model of a run: weights of model.path, else the initial values of debug.seed. TESS_E_INVALID: its
 * vocabulary is unknown until a tokenizer has been trained. */
tess_status tess_on_policy_open_config(tess_mem *mem, const tess_config *config, int n_threads,
                                       const tess_reporter *reporter, tess_on_policy_source *source);
void tess_on_policy_source_close(tess_on_policy_source *source);

/* Reads prompts from a text file, one per line, with the model's tokenizer. Skips blank lines. */
tess_status tess_on_policy_read_prompts(tess_on_policy_source *source, const char *path);
/* Makes prompts of random tokens. Their lengths are around the size of a key block of attention, as far as the model
 * has room for new_tokens more. */
tess_status tess_on_policy_make_prompts(tess_on_policy_source *source, int64_t new_tokens, uint64_t seed);

#endif
