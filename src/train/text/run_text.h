/* The texts of a run: data files, tokenizer, chat template, and the related files of an exported model. Training on
 * text and reinforcement learning share this code; each task owns one tess_run_text. */
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
    json_t *listed;             /* name, size and hash of head and tail of each file of data.files */
    tess_tokenizer *tokenizer;
    char tokenizer_path[1024];     /* argument for tess_tokenizer_read */
    tess_buffer trained_tokenizer; /* a new tokenizer.json, on rank 0 until it has been written */
    tess_chat_setup chat;
} tess_run_text;

/* Lists the files that the configuration names, which must be the same on all hosts. The caller must close it even
 * after a failure. Collective. */
tess_status tess_run_text_create(tess_trainer *trainer, tess_run_text *text);
void tess_run_text_close(tess_run_text *text);

/* Hashes all settings that decide which samples these texts give, except debug.seed, training.seq_len and the
 * tokenizer. */
tess_status tess_run_text_identify(const tess_run_text *text, uint64_t *hash);

/* Opens the chat template and the tokenizer with the names of its special tokens. Rank 0 may train the tokenizer;
 * all ranks receive it. Sets what `model` leaves to the tokenizer. Collective. */
tess_status tess_run_text_open(tess_run_text *text, tess_model_config *model);
/* Writes a tokenizer into job.dump_folder if this run has trained it or taken it from checkpoint.initial_load_path.
 * A tokenizer taken from there also gets the names of its special tokens. Collective. */
tess_status tess_run_text_write(tess_run_text *text);

/* Writes tokenizer, chat template and generation_config.json into the folder of an exported model.
 * has_conversations: a new generation_config.json also stops at the token with which the template ends an answer.
 * Rank 0 only. */
tess_status tess_run_text_export(const tess_run_text *text, const char *folder, bool has_conversations);

/* Checks before the first step that the model can continue sample.prompt. `bos`: the tokens before the prompt. */
tess_status tess_run_text_check_sample(const tess_run_text *text, const tess_prefix *bos);
/* Continues sample.prompt, if it is set, with the model just written to `folder`, and shows the text as a note. Rank
 * 0 only. */
tess_status tess_run_text_sample(const tess_run_text *text, const tess_prefix *bos, int n_threads, const char *folder);

#endif
