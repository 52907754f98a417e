/* The step engine: a model with its sharding, optimizer and activations, which runs one optimizer step at a time on
 * batches from any source. `tessera train` feeds it text, `tessera bench step` random numbers. Prints nothing. */
#ifndef TESS_ENGINE_ENGINE_H
#define TESS_ENGINE_ENGINE_H

#include "mesh/coordinates.h"
#include "nn/model.h"
#include "parallel/fsdp/fsdp_engine.h"
#include "parallel/tensor/tensor_points.h"
#include "tessera/optim.h"
#include "engine/activations.h"
#include "engine/block_units.h"
#include "engine/compute.h"
#include "engine/loss.h"
#include "engine/loss_scale.h"
#include "base/os/phase_clock.h"
#include "config/config.h"
#include "engine/model/weights.h"

typedef struct tess_numbers tess_numbers;
typedef struct tess_stage tess_stage;
typedef struct tess_stage_plan tess_stage_plan;
struct tess_engine;
struct tess_engine_report;

/* The parts of one rank's time of one training step. The phases add up to the step. All that `gather`, `reduce` and
 * `wait` hold was spent on the critical path; hidden_s comes on top of it. */
typedef struct tess_step_times {
    double phase_s[TESS_PHASE_COUNT];
    double total_s;
    double hidden_s; /* waits for peers that passed while this rank computed: what ranks in lockstep would have had */
    double gathered_bytes, reduced_bytes; /* read and written by this rank in the two phases */
    double exchanged_bytes;               /* got from ranks that share its layers */
} tess_step_times;

/* Records the steps of an engine, so that another process can finish one or go on after it. Both members are NULL, or
 * neither is. */
typedef struct tess_step_recorder {
    void *self;
    /* The step is good. Called before its update, whose learning rate and factor of the gradients are `lr` and
     * `scale`; the engine's windows include the step. */
    void (*committed)(void *self, const struct tess_engine *engine, const struct tess_engine_report *report, float lr,
                      float scale);
    void (*done)(void *self, int64_t step); /* weights and moments of `step` are complete */
} tess_step_recorder;

enum { TESS_SHARDS_TEXT = 320 };

/* All members may be read. Others may set `has_news` and `recorder`, and a resumed run sets the counters. */
typedef struct tess_engine {
    const tess_config *config; /* checked; borrowed */
    tess_runtime *runtime;
    tess_team *team;
    tess_mem *mem;
    tess_coordinates at;
    tess_model *whole; /* all stages */
    tess_model *model; /* model of this rank: the whole one, or its stage of a pipeline */
    int *own_param;    /* (n_params of the whole) its number among this rank's; -1: another stage owns it */
    tess_stage *stage; /* stages/rank_stage.h; NULL: no pipeline */
    tess_stage_plan *stage_plan;
    tess_slot_units *stage_slots; /* (n_stage_slots) of the executor */
    int n_stage_slots;
    tess_stream *stream; /* stream of the host: sharding and optimizer, unless the device has the shards; checks */
    tess_compute compute;
    char shards_note[TESS_SHARDS_TEXT]; /* place of its shards, and why (shards.h); "": nothing to say */
    tess_mesh *mesh;
    tess_fsdp *fsdp;
    tess_block_unit *units;       /* (n_units of the model) */
    const void **w;               /* (n_params) gathered parameters, by the hooks */
    float **dw;                   /* (n_params) */
    struct tess_offload *offload; /* offload.h; NULL: nothing is on disk, or another engine has it */
    tess_optimizer *optimizer;
    tess_executor *executor;
    tess_tensor *tensor;   /* exchanges of the ranks that share its layers; NULL: none do */
    tess_numbers *numbers; /* numbers/numbers.h */
    float *logprobs;       /* (pass_tokens) of the device */
    tess_loss_meter meter;
    int64_t pass_tokens;      /* the most tokens of a pass */
    int64_t *pass_ends;       /* (training.passes) of the micro-batch, in sequences */
    int32_t *pass_cu_seqlens; /* (pass_tokens + 1) */
    double peak_flops;        /* peak of all ranks together */
    tess_phase_clock clock;
    tess_step_recorder recorder;
    bool is_second; /* made by tess_engine_create_second */

    int64_t step;     /* steps done */
    int64_t n_tokens; /* target tokens so far */
    /* Steps done when the learning rate's schedule and the optimizer's moments began. Not 0 if a resumed run excluded
     * them from loading. */
    int64_t schedule_begin, optimizer_begin;
    tess_loss_scaler scaler;      /* scaler of the next step */
    tess_scaled_loss scaled_loss; /* loss of the newest micro-batch, if the scale is not 1 */
    bool has_news;                /* this rank has something to report to all ranks after the step */
} tess_engine;

/* The micro-batches of one step. The three numbers may change from step to step. All ranks give the same: a fingerprint
 * of n_micro and divisor travels with the loss's all-reduce, so a rank with other values is named. Sums of gradients
 * keep the memory of the largest step so far. */
typedef struct tess_batch_source {
    void *self;
    /* The micro-batch of index first .. first + n_micro - 1. A rank asks for its own in ascending order. The arrays are
     * valid until the next call. A batch may be empty (n_tokens 0); none is larger than training.local_batch_size *
     * training.seq_len tokens, and training.passes hold it (passes.h). Its loss, and all that the loss reads, is valid
     * until the step returns: a step that is not finite runs its micro-batches again, and then asks the same losses
     * once more. A batch with a loss is refused where training.passes is above 1. */
    tess_status (*next)(void *self, int64_t index, tess_batch *batch);
    int64_t first;
    int64_t n_micro; /* over all ranks, at least 1: the leaves of the step's sum, for any number of ranks */
    double divisor;  /* divisor of the sums of loss and gradient, above 0; 0: the step's target tokens */
    /* NULL, or: called after each run over the step's micro-batches, when loss, norm and tokens of the whole step are
     * known, and before anything is done with them; a second run of the same step (numbers/numbers.h) is judged anew.
     * It may replace report->loss, which is a sum of -log p whatever the batches' losses are, and set report->carry;
     * an error ends the step without an update. The report need not be finite: the checks that follow find out why.
     * Collective: called on all ranks, which give the same loss, carry and status. */
    tess_status (*judge)(void *self, struct tess_engine_report *report);
} tess_batch_source;

typedef struct tess_engine_report {
    double loss, grad_norm, lr; /* loss: sum of -log p over the step's target tokens, by the divisor; or what the
                                   source's judge says */
    double divisor;             /* the step's */
    double loss_scale;          /* factor of the step's gradients on their way; grad_norm is free of it */
    int64_t n_micro, n_tokens;  /* micro-batches and target tokens of the step, over all ranks */
    double zloss, zgrad;        /* z-scores of loss and norm (numbers/numbers.h); NaN: not known yet */
    double carry;               /* a number that the source's judge keeps for the steps that follow */
    bool skipped;               /* the weights did not change; lr is 0 */
    char note[896];             /* a warning about this step, "" */
    bool stop;                  /* some rank was asked to stop; the same on all ranks */
    bool news;                  /* some rank has news; likewise */
    bool leave;                 /* some rank is to leave after the next checkpoint; the same on all ranks */
    tess_step_times times;      /* times of this rank */
} tess_engine_report;

/* Predicts the bytes that training takes on the device of a rank if weights, gradients and moments lie there. */
typedef tess_status (*tess_device_need_fn)(tess_mem *mem, const tess_config *config, const tess_model *model, int rank,
                                           double *bytes);

/* The options of an engine besides its configuration. Any member may be NULL. */
typedef struct tess_engine_options {
    const tess_reporter *reporter; /* gets warnings about weights */
    /* Asked with job.shards=auto and a GPU. Without an answer the shards stay in the host's memory. */
    tess_device_need_fn device_need;
} tess_engine_options;

/* Builds everything. Weights come from persistent memory (job/persist) if they are there, else from model.path, else
 * they are random. `options` may be NULL. `config` has passed tess_config_check_step and is borrowed. Collective. */
tess_status tess_engine_create(tess_runtime *runtime, const tess_config *config, const tess_model_config *model_config,
                               const tess_engine_options *options, tess_engine **engine);
/* The same over the ranks of `team` alone (borrowed), the first ones of the job. Collective over it. */
tess_status tess_engine_create_over(tess_team *team, const tess_config *config, const tess_model_config *model_config,
                                    const tess_engine_options *options, tess_engine **engine);
/* An engine in addition to the one of tess_engine_create, over the same team, for another model that this run trains;
 * its first weights are those of `fill` (borrowed, as `context`, for the call). Its memory ends with the process, the
 * job's board does not show its steps, and faults and drills pass it by. Collective. */
tess_status tess_engine_create_second(tess_team *team, const tess_config *config, const tess_model_config *model_config,
                                      tess_fill_fn fill, void *context, tess_engine **engine);
void tess_engine_destroy(tess_engine **engine);

/* The next step's micro-batches as the configuration has them: training.global_batch_size rows, numbered on from step
 * to step. */
tess_batch_source tess_engine_source(const tess_engine *engine, void *self,
                                     tess_status (*next)(void *self, int64_t index, tess_batch *batch));

/* This rank's micro-batch `local` of the source's step; empty where the ranks do not share them evenly. */
tess_status tess_engine_next_batch(tess_engine *engine, const tess_batch_source *source, int64_t local,
                                   tess_batch *batch);

/* One optimizer step. Collective. TESS_E_INVALID: no target tokens, or no micro-batch. TESS_E_NOT_FINITE: the loss or
 * gradient is not finite and the policy is to stop (the message names who made it; weights as before the step).
 * TESS_E_MISMATCH: the same, but the second run was finite; or replicas have diverged; or ranks were given other
 * numbers by their sources. Also what the source, a batch's loss or the judge returns, with the weights as before. */
tess_status tess_engine_step(tess_engine *engine, const tess_batch_source *source, tess_engine_report *report);

/* Must be called after master weights changed (a load, for example): gathered copies are stale, and so is the copy of a
 * tied table that another stage owns. Collective. */
tess_status tess_engine_weights_changed(tess_engine *engine);

/* training.max_value, on the gradients that the update multiplies by `scale`, in place. Done again it changes nothing.
 */
tess_status tess_engine_clip_values(tess_engine *engine, float scale);

/* The parts of a step before its update, which can run again with the same result. gradients: also gives this rank's
 * part of the loss. measure: loss, norm and tokens of the whole step, on every rank, judged. Collective. */
tess_status tess_engine_gradients(tess_engine *engine, const tess_batch_source *source, tess_loss_sum *own);
tess_status tess_engine_measure(tess_engine *engine, const tess_batch_source *source, const tess_loss_sum *own,
                                tess_engine_report *report);

/* If the device has the shards: waits until the host has kept weights and moments of the newest step, which the
 * recorder then has as done. */
tess_status tess_engine_kept(tess_engine *engine);

/* Adds the losses of a batch to e->meter and, on the ranks that have the head, its target tokens to *sum. Collective,
 * between steps. */
tess_status tess_engine_score(tess_engine *engine, const tess_batch *batch, tess_loss_sum *sum);

/* Adds this rank's newest log-probabilities, of n targets, to e->meter and *sum. Ranks that share a layer have the
 * same: the first counts them. */
tess_status tess_engine_add_loss(tess_engine *engine, const int32_t *targets, int64_t n, tess_loss_sum *sum);

/* Compares over all ranks which collectives a step of `n_micro` micro-batches will call, without calling them.
 * Collective, between steps. TESS_E_MISMATCH: the message shows the first one that differs, and on which rank. */
tess_status tess_engine_rehearse(tess_engine *engine, int64_t n_micro);

/* Parameter `index` of the whole model as this rank holds it: that of another stage as an empty box. After materialize;
 * the pointers are those of tess_fsdp_shard. */
tess_status tess_engine_shard(const tess_engine *engine, int index, tess_shard *shard);
/* Describes what the optimizer keeps of it, in at most TESS_OPTIMIZER_STATES arrays; returns their number. It is the
 * same on all ranks, except for the data: NULL if another stage has the parameter. */
int tess_engine_states(const tess_engine *engine, int index, tess_optimizer_state *states);

/* Hooks that gather and reduce through fsdp's units. */
tess_hooks tess_engine_hooks(tess_engine *engine);
/* Points that exchange with the ranks of the axis "tp". */
tess_points tess_engine_points(tess_engine *engine);

/* The parts that an engine is built of: the policy and the optimizer's options (activations: activations.h; units of
 * fsdp: block_units.h). */
tess_fsdp_policy tess_engine_policy(const tess_config *config);
tess_optimizer_options tess_engine_optimizer(const tess_config *config);

/* Peak bytes of every pool of the host, of this rank. */
void tess_engine_peaks(const tess_engine *engine, int64_t peak_bytes[TESS_POOL_COUNT]);

#endif
