/* A model with its weights in both precisions, and prompts for it: what `verify on-policy` compares, from a model's
 * folder or a run's configuration. */
#ifndef TESS_VERIFY_ON_POLICY_SOURCE_H
#define TESS_VERIFY_ON_POLICY_SOURCE_H

#include "data/tokenizer/tokenizer.h"
#include "config/config.h"
#include "verify/on_policy.h"
#include "engine/model/weights.h"

/* Free it with tess_on_policy_source_close, whatever its making returned. */
typedef struct tess_on_policy_source {
    tess_mem *mem;
    tess_model_config config;
    tess_model *model;
    const void *const *w[2]; /* see tess_on_policy_plan */
    tess_dtype dtype;        /* dtype of the folder's files, or the one that the run computes in */
    char tokenizer[1024];    /* tokenizer of its prompts; "": there is none */
    tess_stream *stream;
    tess_weights *weights[2];
    void **random[2]; /* (n_params) where weights are initial values */
    tess_on_policy_prompt *prompts;
    int n_prompts;
    tess_ids *ids; /* (n_prompts) that prompts point at */
} tess_on_policy_source;

/* A model's folder: config.json and weights. max_length: the position limit, 0: the model's. */
tess_status tess_on_policy_open_folder(tess_mem *mem, const char *folder, int64_t max_length, int n_threads,
                                       const tess_reporter *reporter, tess_on_policy_source *source);
/* The model of a run: weights of model.path, else the initial values of debug.seed. TESS_E_INVALID: its vocabulary is
 * open until a tokenizer has been trained. */
tess_status tess_on_policy_open_config(tess_mem *mem, const tess_config *config, int n_threads,
                                       const tess_reporter *reporter, tess_on_policy_source *source);
void tess_on_policy_source_close(tess_on_policy_source *source);

/* Prompts are the lines of a text file, through the model's tokenizer; blank lines are passed over. */
tess_status tess_on_policy_read_prompts(tess_on_policy_source *source, const char *path);
/* Random tokens in lengths about a block of attention's keys, as long as the model takes with new_tokens more. */
tess_status tess_on_policy_make_prompts(tess_on_policy_source *source, int64_t new_tokens, uint64_t seed);

#endif
