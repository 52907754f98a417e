/* Generation with a KV cache, several prompts at once. A token's log-probability has the same bits as in training and
 * evaluation, whatever else is in the batch (law 2). */
#ifndef TESS_INFER_GENERATE_H
#define TESS_INFER_GENERATE_H

#include "infer/sampler.h"
#include "nn/model.h"

typedef struct tess_generator tess_generator;

typedef struct tess_generator_options {
    tess_dtype dtype;     /* of the weights and the cache */
    int64_t max_length;   /* most tokens of a prompt with its continuation */
    int64_t n_slots;      /* prompts that run at once */
    int64_t chunk_tokens; /* prompt tokens per forward; 0: 512, or max_length when that is less */
} tess_generator_options;

/* stream, model and the hooks' context are borrowed. The cache is allocated at once (kv-cache pool). */
tess_status tess_generator_create(tess_stream *stream, const tess_model *model, const tess_hooks *hooks,
                                  const tess_generator_options *options, tess_generator **generator);
void tess_generator_destroy(tess_generator **generator);
/* Sets the watch (copied) that sees what the layers compute, as tess_executor_set_watch; NULL: none. */
void tess_generator_set_watch(tess_generator *generator, const tess_watch *watch);

/* Called for every token of sequence `prompt`, in order: the prompt's own from position 1 on (generated false), then
 * the new ones. logprob is log p(token | all before), at the temperature that tess_sampling.exact says. */
typedef tess_status (*tess_token_fn)(void *context, int prompt, int64_t position, int32_t token, float logprob,
                                     bool generated);

typedef struct tess_prompt {
    const int32_t *ids;
    int64_t n; /* at least 1, less than max_length */
} tess_prompt;

/* Continues each prompt by up to max_new_tokens, or until an end token (which is reported). Prompts wait for a free
 * slot. Draws use (sampling->seed, number of the prompt, position); the repetition penalty sees prompt and new tokens.
 */
tess_status tess_generate(tess_generator *generator, const tess_prompt *prompts, int n_prompts, int64_t max_new_tokens,
                          const tess_sampling *sampling, const int64_t *end_tokens, int n_end, tess_token_fn on_token,
                          void *context);

#endif
