/* The trainer's parts, private to src/train. */
#ifndef TESS_TRAIN_TRAINER_IMPL_H
#define TESS_TRAIN_TRAINER_IMPL_H

#include "base/core/exact_sum.h"
#include "base/text/text.h"
#include "data/loader/loader.h"
#include "nn/model.h"
#include "tessera/optim.h"
#include "train/metrics.h"
#include "train/train.h"
#include "train/weights.h"

typedef struct tess_trainer {
    tess_config config; /* checked */
    const tess_train_observer *observer;
    tess_runtime *runtime;
    tess_team *team;
    tess_mem *mem;
    int rank, world;

    tess_tokenizer *tokenizer;
    char tokenizer_path[1024];     /* its tokenizer.json, or the folder of it */
    tess_buffer trained_tokenizer; /* on rank 0, until it is written there */
    tess_model_config model_config;
    tess_model *model;
    tess_stream *stream;
    tess_mesh *mesh;
    tess_fsdp *fsdp;
    tess_unit **units; /* (n_units) */
    const void **w;    /* (n_params) gathered parameters, by the hooks */
    float **dw;        /* (n_params) */
    tess_adamw *adamw;
    tess_executor *executor;
    tess_loader *loader;
    tess_loader *held_out;   /* the text to validate on, NULL: none */
    int64_t loader_position; /* global micro-batch that the loader would give next */
    float *logprobs;         /* (local_batch_size * seq_len) */
    tess_metrics *metrics;
    double peak_flops; /* of all ranks together */

    int64_t step;       /* steps done */
    int64_t first_step; /* steps done when this process started */
    int64_t n_tokens;   /* target tokens so far */
    bool stopping;
} tess_trainer;

void tess_trainer_note(const tess_trainer *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Path inside job.dump_folder. */
tess_status tess_trainer_path(const tess_trainer *t, const char *name, char *path, size_t size);

/* Loads the tokenizer, or trains one on rank 0; sets the model's vocabulary when it was left open.
 * Collective. */
tess_status tess_trainer_tokenizer(tess_trainer *t);
/* Writes the tokenizer that this run has trained, if any, into job.dump_folder. Collective. */
tess_status tess_trainer_write_tokenizer(tess_trainer *t);
/* -1 when there is none. */
int32_t tess_trainer_eos(const tess_trainer *t);

/* Fills in the fsdp hooks for the executor. */
tess_hooks tess_trainer_hooks(tess_trainer *t);

/* One optimizer step. Collective. */
tess_status tess_trainer_step(tess_trainer *t, double *loss, double *grad_norm, double *lr);

/* Opens the held-out text, where there is any: what is wrong with it is told before the first step. */
tess_status tess_trainer_open_validation(tess_trainer *t);
/* Mean loss over the held-out text with the current weights. Collective. */
tess_status tess_trainer_validate(tess_trainer *t, tess_validation_report *report);
/* Whether there is text to validate on. */
bool tess_trainer_can_validate(const tess_trainer *t);

/* Checkpoints: save now; load the newest complete one (sets step, n_tokens, data position). Collective. */
tess_status tess_trainer_save(tess_trainer *t);
tess_status tess_trainer_resume(tess_trainer *t);

/* Writes the Hugging Face folder <dump_folder>/model. Collective. */
tess_status tess_trainer_export(tess_trainer *t, char *folder, size_t size);

/* That the model can continue sample.prompt: told before the first step, not after the last. */
tess_status tess_trainer_check_sample(const tess_trainer *t);
/* Rank 0 continues sample.prompt with the model just written; a note shows it. */
tess_status tess_trainer_sample(tess_trainer *t, const char *folder);

/* Sums a loss over ranks exactly, with a few counters beside it. Collective. */
typedef struct tess_loss_sum {
    tess_exact_sum nll;
    int64_t n_tokens, n_bytes, flag;
} tess_loss_sum;
void tess_loss_add(tess_loss_sum *sum, const float *logprobs, const int32_t *targets, int64_t n);
tess_status tess_loss_all_reduce(tess_team *team, tess_loss_sum *sum);

#endif
