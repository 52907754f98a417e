/* The trainer's parts, private to src/train. */
#ifndef TESS_TRAIN_TRAINER_IMPL_H
#define TESS_TRAIN_TRAINER_IMPL_H

#include "base/text/text.h"
#include "ckpt/async/async.h"
#include "ckpt/ckpt_hosts.h"
#include "ckpt/store/store.h"
#include "data/loader/loader.h"
#include "train/engine.h"
#include "train/logbook.h"
#include "train/metrics.h"
#include "train/train.h"

typedef struct tess_trainer {
    tess_config config; /* checked */
    const tess_train_observer *observer;
    tess_runtime *runtime;
    tess_team *team;
    tess_mem *mem;
    int rank, world;
    tess_ckpt_hosts *hosts;

    tess_tokenizer *tokenizer;
    char tokenizer_path[1024];     /* its tokenizer.json, or the folder of it */
    tess_buffer trained_tokenizer; /* on rank 0, until it is written there */
    tess_model_config model_config;
    tess_engine *engine;
    tess_loader *loader;
    tess_loader *held_out;   /* the text to validate on, NULL: none */
    json_t *data_files;      /* see tess_trainer_list_data */
    json_t *data;            /* see tess_trainer_describe_data */
    int64_t loader_position; /* global micro-batch that the loader would give next */
    tess_text_list without;  /* of what was loaded, what was not: see exclude.h */
    tess_metrics *metrics;
    bool metrics_fail;           /* the newest line could not be written */
    tess_saver *saver;           /* saves beside training; NULL: training stands still while it saves */
    tess_ckpt_findings findings; /* of checkpoints that were read back while it did */

    tess_logbook *book;       /* NULL: nothing is kept */
    uint64_t kept_identity;   /* of what is */
    bool goes_on;             /* with what was found there */
    char not_taken[128];      /* the other state that there is, in memory or on the disk, to stand behind that taken */
    logbook_marks kept_marks; /* of all ranks, when this process began */
    logbook_step last_kept;   /* the newest step that an earlier process has judged; step -1: none */

    int64_t first_step; /* steps done when this process started */
    bool stopping;
    bool leaving;                     /* with the next checkpoint */
    double phase_s[TESS_PHASE_COUNT]; /* of all steps of this process */
} tess_trainer;

void tess_trainer_note(const tess_trainer *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same behind "warning: ", and kept for whoever asks later what happened to the job. */
void tess_trainer_warn(const tess_trainer *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Path inside job.dump_folder. */
tess_status tess_trainer_path(const tess_trainer *t, const char *name, char *path, size_t size);

/* An empty trainer; what is made with it below, `end` frees. `end` first reports a failure: the other ranks know
 * nothing of it, and would not meet this one in what is given back. Returns `status`. */
void tess_trainer_begin(tess_trainer *t, tess_runtime *runtime, const tess_config *config,
                        const tess_train_observer *observer);
tess_status tess_trainer_end(tess_trainer *t, tess_status status);

/* Reads the model's configuration. */
tess_status tess_trainer_load_model(tess_trainer *t);
/* Learns which ranks are on which host, and fits and checks the configuration. Collective. */
tess_status tess_trainer_join_hosts(tess_trainer *t);
/* That the hosts share what they must share, and read the same files. Collective. */
tess_status tess_trainer_check_hosts(tess_trainer *t);

/* Rank 0 reads the tokenizer or trains one, and all ranks get it; sets the model's vocabulary when it was left open.
 * Collective. */
tess_status tess_trainer_tokenizer(tess_trainer *t);
/* Writes the tokenizer that this run has trained, if any, into job.dump_folder. Collective. */
tess_status tess_trainer_write_tokenizer(tess_trainer *t);
/* -1 when there is none. */
int32_t tess_trainer_eos(const tess_trainer *t);

/* Looks at data.files: size, and hash of head and tail, of each. */
tess_status tess_trainer_list_data(tess_trainer *t);
/* Of all of them, without their names. */
uint64_t tess_trainer_hash_data(const tess_trainer *t);
/* What samples depend on beside debug.seed and training.seq_len: the files, how they are cut, the tokenizer's ids of
 * the first text. Needs the tokenizer. */
tess_status tess_trainer_describe_data(tess_trainer *t);
/* TESS_E_INVALID names what differs from `saved`, the description in a checkpoint. */
tess_status tess_trainer_check_data(const tess_trainer *t, const json_t *saved);
/* Of each text, from its beginning, what is trained on; the rest is held out. */
double tess_trainer_trained_share(const tess_trainer *t);

/* Opens the training text. */
tess_status tess_trainer_open_data(tess_trainer *t);
/* Its micro-batches. */
tess_batch_source tess_trainer_source(tess_trainer *t);

/* Opens the held-out text, where there is any: what is wrong with it is told before the first step. */
tess_status tess_trainer_open_validation(tess_trainer *t);
/* Mean loss over the held-out text with the current weights, as far as it got: by validation.timeout_s, and with
 * validation.retries when a rank fails to read; the same report on all ranks. Fails only as collectives fail.
 * Collective. */
tess_status tess_trainer_validate(tess_trainer *t, tess_validation_report *report);
/* Whether there is text to validate on. */
bool tess_trainer_can_validate(const tess_trainer *t);

/* What a checkpoint holds of this rank: every weight, followed by both moments of the trainable ones. Free with
 * tess_mem_free. */
tess_status tess_trainer_list_tensors(tess_trainer *t, tess_ckpt_tensor **tensors, int *n);
/* Saves now. Collective. A save that fails is an error where checkpoint.on_error says so or it is the `last`; else a
 * note. */
tess_status tess_trainer_save(tess_trainer *t, bool last);
/* Whether this rank looks after the folder of checkpoints. */
bool tess_trainer_keeps_folder(const tess_trainer *t);
/* Goes on from the run's newest checkpoint, or the one that was asked for; else from checkpoint.initial_load_path; else
 * nothing happens. Collective. */
tess_status tess_trainer_resume(tess_trainer *t);
tess_status tess_trainer_warm_start(tess_trainer *t);
/* Sets step, n_tokens, the data's position and the windows of the newest numbers, but for what `without` lists, from
 * what a checkpoint says beside its tensors. TESS_E_INVALID: its data was other data. */
tess_status tess_trainer_restore_state(tess_trainer *t, const json_t *meta);

/* Saves beside training (checkpoint_async.c), all collective. Where they cannot be, a note says why, and saves are made
 * with training standing still.
 * open: with the engine made, before checkpoints are looked for: what an earlier job of this launch left is written
 * first. stage: leaves a save to the writer; *done false: there is no longer one. hear: after a step, tells how saves
 * went. finish: waits for the last one and tells. */
tess_status tess_trainer_open_saver(tess_trainer *t);
tess_status tess_trainer_stage(tess_trainer *t, const char *folder, const json_t *meta, const tess_ckpt_tensor *tensors,
                               int n, bool *done);
tess_status tess_trainer_hear_saves(tess_trainer *t);
tess_status tess_trainer_finish_saves(tess_trainer *t);
/* What becomes of the failure of a save, on all ranks alike: TESS_OK, and it was noted; or itself. */
tess_status tess_trainer_judge_save(const tess_trainer *t, tess_status status, bool last);
/* The step of the newest one, -1: none. Collective. */
tess_status tess_trainer_newest_checkpoint(tess_trainer *t, int64_t *step);

/* Decides whether this run goes on with what is kept in memory, and forgets that when it does not. Before the engine is
 * made. Collective, as the next. */
tess_status tess_trainer_look_at_persistent(tess_trainer *t);
/* Takes the engine and the data to the newest step of it. */
tess_status tess_trainer_go_on(tess_trainer *t);
/* From here on, what is kept is of use: weights, moments and data stand where the run begins. */
void tess_trainer_begin_book(tess_trainer *t);

/* Writes the Hugging Face folder <dump_folder>/model. Collective. */
tess_status tess_trainer_export(tess_trainer *t, char *folder, size_t size);

/* That the model can continue sample.prompt: told before the first step, not after the last. */
tess_status tess_trainer_check_sample(const tess_trainer *t);
/* Rank 0 continues sample.prompt with the model just written; a note shows it. */
tess_status tess_trainer_sample(tess_trainer *t, const char *folder);

#endif
