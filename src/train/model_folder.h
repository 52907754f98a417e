/* A model's folder: config.json, tokenizer.json, and weights of any format that ckpt/catalog reads. Opened for
 * inference in one process: configuration, tokenizer, weights, kernels. */
#ifndef TESS_TRAIN_MODEL_FOLDER_H
#define TESS_TRAIN_MODEL_FOLDER_H

#include "data/loader/loader.h"
#include "infer/generate.h"
#include "train/compute.h"
#include "train/train_config.h"
#include "train/weights.h"

/* Path of a file in a model's folder. TESS_E_NOT_FOUND says what belongs there. */
tess_status tess_model_folder_file(const char *folder, const char *name, char *path, size_t size);
/* Path of the config.json of a run's model: model.config, or the one in model.path. */
tess_status tess_config_model_file(const tess_config *config, char *path, size_t size);
/* Reads that file, with the run's position limit and sums. TESS_E_INVALID: training.seq_len is above the limit. */
tess_status tess_config_read_model(const tess_config *config, tess_model_config *model);
/* Reads it, and unties the head if tess_config_untie_head does. `reporter` may be NULL. */
tess_status tess_config_load_model(const tess_config *config, const tess_reporter *reporter, tess_model_config *model);

/* A chat template and what writes with it. */
typedef struct tess_chat_setup {
    tess_chat_template *chat;     /* NULL: there is none, or it cannot be used (how.problem) */
    tess_chat_template *training; /* NULL: none is known, or tess_chat_setup_train was not called */
    tess_chat how;                /* borrows the others */
} tess_chat_setup;
/* Reads the template at `path`, a file or a model's folder. If the path is empty, it reads that in `folder`, if there
 * is one. The tokenizer is borrowed; its special tokens are the template's. The date that a template sees is 26 July
 * 2024, always. An error of the template at `path` is returned. One of the template in `folder` is told when a
 * conversation is met. */
tess_status tess_chat_setup_open(tess_mem *mem, const char *path, const char *folder, const tess_tokenizer *tokenizer,
                                 tess_chat_setup *setup);
/* Lets a training template stand in for that of a family that has one, and says so (reporter NULL: to nobody). */
tess_status tess_chat_setup_train(tess_mem *mem, tess_chat_setup *setup, const tess_reporter *reporter);
void tess_chat_setup_close(tess_chat_setup *setup);

/* The token that ends a text: the tokenizer's eos_token, or else the first of config.json. If config.json
 * leaves it to the family's default, that must be a special token. -1: there is none, or the tokenizer does not have
 * it. */
int32_t tess_model_end_of_text(const tess_model_config *config, const tess_tokenizer *tokenizer);

/* The tokens that begin a text, the same in training, validation, evaluation and generation: those of the tokenizer's
 * template, or none (FALSE). TRUE: where the template has none, the bos_token_id of config.json; TESS_E_INVALID: it is
 * no special token.
 */
tess_status tess_model_begin_of_text(const tess_model_config *config, const tess_tokenizer *tokenizer, tess_add_bos add,
                                     tess_prefix *bos);

typedef struct tess_model_folder {
    tess_mem *mem;
    char folder[1024];
    tess_model_config config;
    tess_model *model;
    tess_tokenizer *tokenizer;
    tess_stream *stream; /* stream of the host */
    tess_weights *weights;
    tess_hooks hooks; /* weights in the host's memory */
    tess_compute compute;
    tess_dtype dtype;
} tess_model_folder;

typedef struct tess_model_folder_options {
    tess_dtype dtype;    /* TESS_F32 or TESS_BF16; TESS_DTYPE_COUNT: that of the files (float32 if they are mixed) */
    int64_t max_length;  /* the position limit that --max-length states; 0: the model's */
    int n_threads;       /* 0: all cores */
    const char *device;  /* a name for tess_device_open */
    const char *adapter; /* folder with an adapter of the model, as PEFT or a run writes it; NULL: none */
} tess_model_folder_options;

tess_status tess_model_folder_open(tess_mem *mem, const char *folder, const tess_model_folder_options *options,
                                   const tess_reporter *reporter, tess_model_folder *opened);
void tess_model_folder_close(tess_model_folder *opened);

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
