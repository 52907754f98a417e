/* Evaluates a model folder on a text file, in one process or on ranks that divide the tokens of each batch. */
#ifndef TESS_TRAIN_TEXT_EVALUATE_H
#define TESS_TRAIN_TEXT_EVALUATE_H

#include "config/config.h"
#include "data/loader/loader.h"
#include "tessera/comm.h"
#include "train/text/model_folder.h"

typedef tess_status (*tess_eval_token_fn)(void *context, int64_t position, int32_t token, float logprob, float entropy);
typedef struct tess_evaluation_options {
    /* text file, JSON lines or shard of ids: see tess_loader_options */
    const char *path;
    tess_data_format format; /* format of a .bin file that does not record it */
    /* token that ends documents in such a file; -1: the model's end-of-text token */
    int64_t end_token;
    const char *text_key, *prompt_key, *completion_key; /* names of members in JSON lines: see tess_loader_options */
    tess_split split;
    const char *chat_template; /* template for lines with messages; NULL: the model's */
    int64_t seq_len;           /* length of the rows; 0: the model's maximum, but at most 1024 */
    int64_t logit_bytes;       /* training.logit_bytes */
    tess_add_bos add_bos;
    /* Called for each predicted token with its position (from 1), its log-probability, and the entropy of the
     * prediction in nats. May be NULL, like `progress`. */
    tess_eval_token_fn per_token;
    void (*progress)(void *context, int64_t n_tokens);
    void *context;
    const tess_reporter *reporter; /* receives warnings; NULL: they are dropped */
    /* Ranks that all evaluate the same file: a power of two of them divide the tokens of each batch, with the same
     * bits. Each has the whole model and calls `per_token`. NULL: one process */
    tess_team *team;
    /* How they divide attention: a tess_context_method; -1: by heads if there are as many key heads as ranks, else
     * gather */
    int context_method;
} tess_evaluation_options;

/* The loss on a text file, computed as in validation. */
typedef struct tess_evaluation {
    double loss, perplexity, bits_per_byte;
    int64_t n_tokens, n_bytes;
} tess_evaluation;
/* Collective over the team. */
tess_status tess_evaluate_file(tess_model_folder *opened, const tess_evaluation_options *options,
                               tess_evaluation *result);

#endif
