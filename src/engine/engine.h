/* The step engine: a model with its sharding, optimizer and activations, which runs one optimizer step at a time on
 * batches from any source. `tessera train` feeds it text, `tessera bench step` random numbers. Prints nothing. */
#ifndef TESS_ENGINE_ENGINE_H
#define TESS_ENGINE_ENGINE_H

#include "mesh/coordinates.h"
#include "nn/model.h"
#include "parallel/expert/expert_points.h"
#include "parallel/tensor/ring_points.h"
#include "parallel/tensor/tensor_points.h"
#include "tessera/optim.h"
#include "engine/activations.h"
#include "engine/block_units.h"
#include "engine/compute.h"
#include "engine/loss.h"
#include "engine/loss_scale.h"
#include "engine/batch/passes.h"
#include "engine/batch/context_pieces.h"
#include "tessera/clock.h"
#include "config/config.h"
#include "engine/model/weights.h"

/* The numbers of steps that were done when the learning rate's schedule, and the optimizer's moments, started. They are
 * not 0 if a resumed run excluded them from loading, and the optimizer's counts steps that loss scaling skipped. */
typedef struct tess_restarts {
    int64_t schedule, optimizer;
} tess_restarts;

/* Reads them from the description `what` of a checkpoint after `step`. TESS_E_FORMAT: they do not fit together */
tess_status tess_restarts_read(const json_t *meta, const char *what, int64_t step, tess_restarts *restarts);

typedef struct tess_numbers tess_numbers;
typedef struct tess_router_bias tess_router_bias;
typedef struct tess_stage tess_stage;
typedef struct tess_stage_plan tess_stage_plan;
struct tess_engine;
struct tess_engine_report;

/* How one rank spent the time of one training step. The phases add up to the step. Time in `gather`, `reduce` and
 * `wait` was spent on the critical path. hidden_s is not part of the step's time. */
typedef struct tess_step_times {
    double phase_s[TESS_PHASE_COUNT];
    double total_s;
    /* Waits for peers that were hidden by computing: what a rank in lockstep would have waited, minus what this rank
     * waited */
    double hidden_s;
    double gathered_bytes, reduced_bytes; /* bytes that this rank read and wrote in `gather` and `reduce` */
    double exchanged_bytes;               /* received from ranks that share its layers or its tokens */
    /* Leaves that came from ranks that divide its tokens, and those of them that had come when they were needed */
    double leaves, leaves_in_time;
} tess_step_times;

/* Records the steps of an engine, so that another process can finish a step or continue after it. Either both
 * callbacks are NULL, or neither is. */
typedef struct tess_step_recorder {
    void *self;
    /* Called when the step's numbers have passed all checks, before its update. `lr` and `scale` are the update's
     * learning rate and the factor of its gradients. The engine's windows already include the step. */
    void (*committed)(void *self, const struct tess_engine *engine, const struct tess_engine_report *report, float lr,
                      float scale);
    void (*done)(void *self, int64_t step); /* called when weights and moments of `step` are complete */
} tess_step_recorder;

struct tess_program; /* tessera/loop_program.h */

/* All members may be read. Other modules may set `recorder`. A resumed run sets the counters. */
typedef struct tess_engine {
    const tess_config *config; /* checked configuration; borrowed */
    /* A program outside of the library that computes the model (foreign.h); borrowed; NULL: there is none */
    const struct tess_program *program;
    tess_runtime *runtime;
    tess_team *team;
    tess_mem *mem;
    tess_coordinates at;
    const tess_model *whole; /* the model of all stages: own_whole, or that of the options */
    tess_model *own_whole;
    tess_model *model; /* model of this rank: the whole one, or its stage of a pipeline */
    tess_stage *stage; /* stages/rank_stage.h; NULL: no pipeline */
    tess_stage_plan *stage_plan;
    /* Stream of the host, for sharding and optimizer (unless shards are on the device) and for checks */
    tess_stream *stream;
    tess_compute compute;
    tess_mesh *mesh;
    tess_fsdp *fsdp;
    tess_block_unit *units;       /* (n_units of the model) the fsdp unit of each block */
    tess_block_params gathered;   /* set by the hooks */
    struct tess_offload *offload; /* offload.h; NULL: nothing is on disk, or another engine owns it */
    tess_optimizer *optimizer;    /* NULL: the program has its own */
    tess_executor *executor;      /* NULL: the program runs the model */
    tess_tensor *tensor;          /* exchanges between the ranks that share its layers; NULL: no rank shares them */
    tess_team *context_team;      /* the ranks that divide the tokens of the same micro-batches; NULL: one */
    tess_tensor *context;         /* exchanges between them; NULL: one */
    tess_ring *ring;              /* leaves that travel between them; NULL: none do */
    tess_pieces pieces;           /* this rank's tokens of micro-batches */
    tess_expert_team *experts;    /* exchanges between the ranks that divide experts; NULL: no rank divides them */
    tess_numbers *numbers;        /* checks of a step's numbers (numbers/numbers.h) */
    tess_loss_meter meter;
    tess_router_bias *router_bias; /* numbers/router_bias.h; NULL: no bias changes */
    tess_expert_loads loads;       /* sums over this rank's micro-batches; counts NULL: no experts */
    tess_passes passes;
    tess_phase_clock clock;
    tess_step_recorder recorder;
    bool is_second; /* tess_engine_create_second made it */

    int64_t step;     /* number of steps done */
    int64_t n_tokens; /* number of target tokens so far */
    tess_restarts restarts;
    tess_scaled_loss scaled; /* scale of the next step, and the loss of the newest micro-batch */
} tess_engine;

/* The micro-batches of one step. The three numbers may change from step to step, and must be the same on all ranks.
 * A fingerprint of n_micro and divisor is part of the loss's all-reduce, so a rank with other values is reported.
 * The memory for sums of gradients is that of the largest step so far. */
typedef struct tess_batch_source {
    void *self;
    /* Returns the micro-batch with number `index`, first .. first + n_micro - 1.
     * A rank requests its own in ascending order. The arrays are valid until the next call.
     * A batch may be empty (n_tokens 0). It has at most training.local_batch_size * training.seq_len tokens, and
     * must fit into training.passes (passes.h).
     * Its loss, and all data that the loss reads, must stay valid until the step returns: a step that is not finite
     * runs its micro-batches again, and calls the same losses once more. A batch with a loss is refused if
     * training.passes is above 1. */
    tess_status (*next)(void *self, int64_t index, tess_batch *batch);
    bool has_news; /* this rank has something to report to all ranks after the step (tess_engine_report.news) */
    int64_t first;
    int64_t n_micro; /* over all ranks, at least 1: the leaves of the step's sum, whatever the number of ranks */
    /* The sums of loss and gradient are divided by it; above 0; 0: the step's number of target tokens */
    double divisor;
    /* NULL, or a callback after each run over the step's micro-batches, before anything uses the results. By then
     * loss, norm and tokens of the whole step are known. If the step runs again (numbers/numbers.h), it is called
     * again.
     * It may replace report->loss, which is a sum of -log p whatever the batches' losses are, and set report->carry.
     * An error ends the step without an update. The report's numbers may be NaN or infinite: later checks find the
     * cause.
     * Collective: all ranks call it, and must set the same loss, carry and status. */
    tess_status (*judge)(void *self, struct tess_engine_report *report);
} tess_batch_source;

/* How the step's tokens were distributed over the experts of a layer. */
typedef struct tess_load_report {
    double max_over_mean; /* the most tokens of an expert over the mean, in the worst layer; 0: no experts */
    int64_t n_idle;       /* experts of all layers without a token */
    double aux_loss;      /* the auxiliary losses that were added, divided by the step's divisor */
} tess_load_report;

typedef struct tess_engine_report {
    /* loss: the sum of -log p over the step's target tokens, divided by the divisor; or the value that the source's
     * judge sets */
    double loss, grad_norm, lr;
    double divisor;            /* the step's divisor */
    double loss_scale;         /* factor by which the step's gradients were scaled; grad_norm does not contain it */
    int64_t n_micro, n_tokens; /* micro-batches and target tokens of the step, over all ranks */
    double zloss, zgrad;       /* z-scores of loss and norm (numbers/numbers.h); NaN: not known yet */
    double carry;              /* a number that the source's judge passes on to later steps */
    tess_load_report load;
    bool skipped;          /* the weights did not change; lr is 0 */
    char note[896];        /* a warning about this step; "": none */
    bool stop;             /* some rank was asked to stop; the same on all ranks */
    bool news;             /* some rank has news; the same on all ranks */
    bool leave;            /* some rank must leave after the next checkpoint; the same on all ranks */
    tess_step_times times; /* times of this rank */
} tess_engine_report;

/* Predicts the bytes that training takes on a rank's device if weights, gradients and moments are there. */
typedef tess_status (*tess_device_need_fn)(tess_mem *mem, const tess_config *config, const tess_model *model, int rank,
                                           double *bytes);

/* Options of an engine in addition to its configuration. Any member may be NULL. */
typedef struct tess_engine_options {
    const tess_reporter *reporter; /* receives warnings about weights */
    /* Called with job.shards=auto and a GPU. If it is NULL, the shards stay in host memory. */
    tess_device_need_fn device_need;
    /* The program whose model trains, in place of that of the configuration. tess_foreign_check has passed it. */
    const struct tess_program *program;
    /* The model of all stages, with the configuration's frozen parameters, so that many engines share one description
     * of it. Borrowed. NULL: the engine creates it. */
    const tess_model *whole;
} tess_engine_options;

/* Creates an engine. Its weights come from persistent memory (job/persist) if they are there, else from model.path;
 * without that they are random. `options` may be NULL. `config` has passed tess_config_check_step and is borrowed.
 * Collective. */
tess_status tess_engine_create(tess_runtime *runtime, const tess_config *config, const tess_model_config *model_config,
                               const tess_engine_options *options, tess_engine **engine);
/* tess_engine_create over the ranks of `team` only (borrowed), which are the first ones of the job. Collective over
 * `team`. */
tess_status tess_engine_create_over(tess_team *team, const tess_config *config, const tess_model_config *model_config,
                                    const tess_engine_options *options, tess_engine **engine);
/* Creates a second engine over the same team, for another model that this run trains. `fill` gives its first
 * weights; it and `context` are borrowed during the call. Its memory is not persistent, the job's board does not
 * show its steps, and faults and drills do not apply to it. Collective. */
tess_status tess_engine_create_second(tess_team *team, const tess_config *config, const tess_model_config *model_config,
                                      tess_fill_fn fill, void *context, tess_engine **engine);
void tess_engine_destroy(tess_engine **engine);

/* Returns a source for the next step as the configuration describes it: training.global_batch_size rows, numbered
 * continuously from step to step. */
tess_batch_source tess_engine_source(const tess_engine *engine, void *self,
                                     tess_status (*next)(void *self, int64_t index, tess_batch *batch));

/* Gets this rank's micro-batch `local` of the source's step. It is empty if the micro-batches do not divide evenly
 * among ranks. In a pipeline it is this rank's part of it (tess_pieces_take). */
tess_status tess_engine_next_batch(tess_engine *engine, const tess_batch_source *source, int64_t local,
                                   tess_batch *batch);

/* Runs one optimizer step. Collective. The errors below leave the weights as before the step, and so do those of the
 * source, a batch's loss or the judge.
 * TESS_E_INVALID: no target tokens, or no micro-batch
 * TESS_E_NOT_FINITE: the loss or gradient is not finite and the policy is to stop; the message names the rank that
 * caused it
 * TESS_E_MISMATCH: the same, but a second run was finite; or replicas have diverged; or ranks have sources with
 * different numbers */
tess_status tess_engine_step(tess_engine *engine, const tess_batch_source *source, tess_engine_report *report);

/* Call it after master weights have changed (after a load, for example): gathered copies are out of date, and so is
 * the copy of a tied table that another stage owns. Collective. */
tess_status tess_engine_weights_changed(tess_engine *engine);

/* Applies training.max_value in place to the gradients, which the update multiplies by `scale`. Calling it twice has
 * no further effect. */
tess_status tess_engine_clip_values(tess_engine *engine, float scale);

/* The parts of a step before its update. They can run again with the same result. Collective.
 * gradients: runs the micro-batches; *own receives this rank's part of the loss
 * measure: computes loss, norm and tokens of the whole step on every rank, and calls the judge */
tess_status tess_engine_gradients(tess_engine *engine, const tess_batch_source *source, tess_loss_sum *own);
tess_status tess_engine_measure(tess_engine *engine, const tess_batch_source *source, const tess_loss_sum *own,
                                tess_engine_report *report);

/* If the shards are on the device, waits until the host has a copy of the weights and moments of the newest step.
 * Then tells the recorder that this step is done. */
tess_status tess_engine_kept(tess_engine *engine);

/* Computes the losses of a batch and adds them to e->meter. On the ranks that have the head, adds its target tokens
 * to *sum. Collective, between steps. */
tess_status tess_engine_score(tess_engine *engine, const tess_batch *batch, tess_loss_sum *sum);

/* Runs this rank's part of the forward of a batch on an executor for e->model. The ranks that have the head compute the
 * task. Collective over the ranks with the same micro-batches, which pass the same batch. */
tess_status tess_engine_evaluate(tess_engine *engine, tess_executor *executor, const tess_batch *batch,
                                 const tess_head_task *task);

/* Whether this rank counts the results of its micro-batches. Of the ranks that have the same ones, and so the same
 * results of the head, that is the first that has the head. */
bool tess_engine_counts(const tess_engine *engine);

/* Adds this rank's newest log-probabilities, of n targets, to e->meter and *sum, if it counts. */
tess_status tess_engine_add_loss(tess_engine *engine, const int32_t *targets, int64_t n, tess_loss_sum *sum);

/* Returns this rank's shard of parameter `index` of the whole model: an empty box if another stage has it. Call it
 * after materialize. The pointers are those of tess_fsdp_shard. */
tess_status tess_engine_shard(const tess_engine *engine, int index, tess_shard *shard);
/* Replaces the numbers of own parameters in the rank's model by those in fsdp. Call it once, when the units are made.
 */
void tess_engine_number_params(tess_engine *engine);
/* Returns the number in fsdp of parameter `index` of the whole model; -1: another stage owns it. */
int tess_engine_own_param(const tess_engine *engine, int index);
/* Returns the parameter of the rank's model that has this number in fsdp. */
const tess_param *tess_engine_param(const tess_engine *engine, int number);
/* Describes the optimizer's state of parameter `index`, in at most TESS_OPTIMIZER_STATES arrays; returns their
 * number. It is the same on all ranks, except for the data, which is NULL if another stage has the parameter. */
int tess_engine_states(const tess_engine *engine, int index, tess_optimizer_state *states);

/* Hooks that gather and reduce through fsdp's units. */
tess_hooks tess_engine_hooks(tess_engine *engine);
/* Points (nn/points.h) that exchange with the ranks of the mesh axis "tp". */
tess_points tess_engine_points(tess_engine *engine);
tess_points tess_engine_context_points(tess_engine *engine);
tess_ring_points tess_engine_ring_points(tess_engine *engine);
tess_expert_points tess_engine_expert_points(tess_engine *engine);

/* Options that an engine derives from its configuration: those of fsdp and of the optimizer. (activations.h has
 * those of the activations, block_units.h the units of fsdp.) */
tess_fsdp_policy tess_engine_policy(const tess_config *config);
tess_optimizer_options tess_engine_optimizer(const tess_config *config);

/* Returns this rank's peak bytes in every pool of host memory. */
void tess_engine_peaks(const tess_engine *engine, int64_t peak_bytes[TESS_POOL_COUNT]);

#endif
