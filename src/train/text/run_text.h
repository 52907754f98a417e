/* The texts of a run, which training on text and reinforcement learning share: the files of its data, the tokenizer,
 * the chat template, and what a trained model's folder needs of them. Each task owns one. */
#ifndef TESS_TRAIN_TEXT_RUN_TEXT_H
#define TESS_TRAIN_TEXT_RUN_TEXT_H

#include "base/text/text.h"
#include "data/files/data_files.h"
#include "train/text/chat_setup.h"
#include "train/trainer.h"

typedef struct tess_run_text {
    tess_trainer *trainer;
    const tess_config *config;
    tess_mem *mem;
    tess_team *team;
    tess_data_files files;      /* files of data.files */
    tess_data_files held_files; /* files of validation.files */
    json_t *listed;             /* name, size and a hash of head and tail of each file of data.files */
    tess_tokenizer *tokenizer;
    char tokenizer_path[1024];     /* argument for tess_tokenizer_read */
    tess_buffer trained_tokenizer; /* a new tokenizer.json on rank 0, until it is written */
    tess_chat_setup chat;
} tess_run_text;

/* Lists the files that the configuration names; all hosts must have the same. Close it after a failure, too.
 * Collective. */
tess_status tess_run_text_create(tess_trainer *trainer, tess_run_text *text);
void tess_run_text_close(tess_run_text *text);

/* A hash of all that decides which samples these texts give, except for debug.seed, training.seq_len and the
 * tokenizer. */
tess_status tess_run_text_identify(const tess_run_text *text, uint64_t *hash);

/* Reads the chat template, and the tokenizer with the names of its special tokens; rank 0 may train one, and all ranks
 * get it. Sets what `model` leaves to the tokenizer. Collective. */
tess_status tess_run_text_open(tess_run_text *text, tess_model_config *model);
/* Writes the tokenizer that this run has trained or taken from checkpoint.initial_load_path, if any, into
 * job.dump_folder, the latter with the names of its special tokens. Collective. */
tess_status tess_run_text_write(tess_run_text *text);

/* Adds to the folder of an exported model its tokenizer, chat template and generation_config.json. has_conversations:
 * a new generation_config.json stops where the template ends an answer. Rank 0 alone. */
tess_status tess_run_text_export(const tess_run_text *text, const char *folder, bool has_conversations);

/* Checks before the first step that the model can continue sample.prompt, after the tokens `bos`. */
tess_status tess_run_text_check_sample(const tess_run_text *text, const tess_prefix *bos);
/* Continues sample.prompt, if there is one, with the model just written to `folder`; a note shows it. Rank 0 alone. */
tess_status tess_run_text_sample(const tess_run_text *text, const tess_prefix *bos, int n_threads, const char *folder);

#endif
