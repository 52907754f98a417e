/* The parts of the text task, private to src/train/text. */
#ifndef TESS_TRAIN_TEXT_TEXT_IMPL_H
#define TESS_TRAIN_TEXT_TEXT_IMPL_H

#include "data/loader/loader.h"
#include "train/text/early_stop.h"
#include "train/text/run_text.h"

typedef struct text_task {
    tess_run_text text;
    tess_engine *engine; /* NULL: the engine does not exist yet */
    tess_prefix bos;     /* tokens that begin each document, see text_keep_bos */
    tess_loader *loader;
    tess_loader *held_out;   /* the validation text; NULL: none */
    json_t *data;            /* description of the data (text_describe_data) */
    int64_t loader_position; /* index of the loader's next global micro-batch */
    tess_early_stop early_stop;
} text_task;

/* ---- text_data.c ---- */
/* Whether the configuration provides validation text. */
bool text_can_validate(const tess_config *config);
/* Returns the share of each file, from its beginning, that is used for training. The rest is held out. */
double text_trained_share(const tess_config *config);
/* Opens the training text. data.add_bos decides how its documents begin. */
tess_status text_open_data(text_task *t);
/* Opens the validation text, if there is any. Opening it before the first step finds errors in it early. */
tess_status text_open_validation(text_task *t);
/* Makes documents begin as they did when the run began: with a bos token or without, whatever data.add_bos=auto
 * gives now. A note reports a difference. Moves the loader to the beginning of the data. Returns TESS_E_INVALID if
 * data.add_bos=true or false contradicts it, or if there is no bos token any more. */
tess_status text_keep_bos(text_task *t, bool began_with);

/* ---- data_identity.c ---- */
/* Describes each file of data.files: name, size, and a hash of head and tail. */
tess_status text_list_files(const tess_data_files *files, json_t **listed);
/* Describes everything that samples depend on, apart from debug.seed and training.seq_len: the files, how they are
 * cut and mixed, and the tokenizer. */
tess_status text_describe_data(text_task *t);
/* Compares the data with `saved`, the description in a checkpoint. If they differ, returns TESS_E_INVALID and names
 * the difference. The files of a mixture may differ: see text_match_sources. */
tess_status text_check_data(const text_task *t, const json_t *saved);
/* Finds each source of the mixture in `saved`. from[i] (TESS_DATA_SOURCES) is the index of source i there; -1: the
 * source is new. *same: the mixture has not changed. Returns TESS_E_INVALID if no source is found. */
tess_status text_match_sources(const text_task *t, const json_t *saved, int *from, bool *same);

/* ---- tokenizer_setup.c ---- */
/* Opens the tokenizer for tess_run_text_open. Collective. */
tess_status text_open_tokenizer(tess_run_text *text, tess_model_config *model);

/* ---- text_validate.c ---- */
/* Computes the mean loss over the held-out text with the current weights. The result is partial or missing after
 * validation.timeout_s, or if reading still fails after validation.retries retries. All ranks get the same report.
 * Fails only if a collective fails. Collective. */
tess_status text_validate(text_task *t, tess_validation_report *report);

#endif
