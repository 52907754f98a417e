/* Evaluation of a text file by a model folder, in one process. */
#ifndef TESS_TRAIN_TEXT_EVALUATE_H
#define TESS_TRAIN_TEXT_EVALUATE_H

#include "config/config.h"
#include "data/loader/loader.h"
#include "train/text/model_folder.h"

typedef tess_status (*tess_eval_token_fn)(void *context, int64_t position, int32_t token, float logprob, float entropy);
typedef struct tess_evaluation_options {
    const char *path;                                   /* text, jsonl or a shard: see tess_loader_options */
    tess_data_format format;                            /* format of a .bin that does not say what it holds */
    int64_t end_token;                                  /* ends documents in such a file; -1: the model's end of text */
    const char *text_key, *prompt_key, *completion_key; /* members of jsonl: see tess_loader_options */
    tess_split split;
    const char *chat_template; /* template of lines with messages; NULL: the model's */
    int64_t seq_len;           /* length of the rows; 0: the model's longest, at most 1024 */
    tess_add_bos add_bos;
    /* Gets every predicted token, numbered from 1, with its log-probability and the entropy of the prediction, in nats.
     * May be NULL, as `progress`. */
    tess_eval_token_fn per_token;
    void (*progress)(void *context, int64_t n_tokens);
    void *context;
    const tess_reporter *reporter; /* reporter of warnings; NULL: none */
} tess_evaluation_options;

/* Loss of a text file, as in validation. */
typedef struct tess_evaluation {
    double loss, perplexity, bits_per_byte;
    int64_t n_tokens, n_bytes;
} tess_evaluation;
tess_status tess_evaluate_file(tess_model_folder *opened, const tess_evaluation_options *options,
                               tess_evaluation *result);

#endif
