/* The parts of the text task, private to src/train/text. */
#ifndef TESS_TRAIN_TEXT_TEXT_IMPL_H
#define TESS_TRAIN_TEXT_TEXT_IMPL_H

#include "data/loader/loader.h"
#include "train/text/early_stop.h"
#include "train/text/run_text.h"

typedef struct text_task {
    tess_run_text text;
    tess_engine *engine; /* NULL: not made yet */
    tess_prefix bos;     /* begins each document, see text_keep_bos */
    tess_loader *loader;
    tess_loader *held_out;   /* the text to validate on, NULL: none */
    json_t *data;            /* made by text_describe_data */
    int64_t loader_position; /* the next global micro-batch of the loader */
    tess_early_stop early_stop;
} text_task;

/* ---- text_data.c ---- */
/* Whether there is text to validate on. */
bool text_can_validate(const tess_config *config);
/* The share of each file, from its beginning, that is trained on; the rest is held out. */
double text_trained_share(const tess_config *config);
/* Opens the training text, whose documents begin as data.add_bos says. */
tess_status text_open_data(text_task *t);
/* Opens the held-out text if there is any, so that errors in it are found before the first step. */
tess_status text_open_validation(text_task *t);
/* A run goes on as it began: documents begin with a bos token or not, whatever data.add_bos=auto says now; a note
 * reports a difference. The position is the beginning of the data. TESS_E_INVALID: it began otherwise than
 * data.add_bos=true or false says, or there is no bos token any more. */
tess_status text_keep_bos(text_task *t, bool began_with);

/* ---- data_identity.c ---- */
/* Describes each file of data.files: its name, its size, and a hash of its head and tail. */
tess_status text_list_files(const tess_data_files *files, json_t **listed);
/* Describes what samples depend on besides debug.seed and training.seq_len: the files, how they are cut and mixed, and
 * the tokenizer. */
tess_status text_describe_data(text_task *t);
/* TESS_E_INVALID names what differs from `saved`, the description in a checkpoint. The files of a mixture may differ:
 * see text_match_sources. */
tess_status text_check_data(const text_task *t, const json_t *saved);
/* `from` (TESS_DATA_SOURCES) gets, for each source of a mixture, its number among those of `saved`; -1: it is new.
 * *same: the mixture has not changed. TESS_E_INVALID: none was in it. */
tess_status text_match_sources(const text_task *t, const json_t *saved, int *from, bool *same);

/* ---- tokenizer_setup.c ---- */
/* The tokenizer's part of tess_run_text_open. Collective. */
tess_status text_open_tokenizer(tess_run_text *text, tess_model_config *model);

/* ---- text_validate.c ---- */
/* Mean loss over the held-out text with the current weights. The result is partial or missing after
 * validation.timeout_s, or if a rank fails to read validation.retries times. All ranks get the same report. Fails only
 * if a collective fails. Collective. */
tess_status text_validate(text_task *t, tess_validation_report *report);

#endif
