/* This rank's stages of a pipeline: its layers, the schedule by which they run, and the messages to the stages
 * before and after them. The bits are those of one rank: each micro-batch is computed as without a pipeline, and
 * gradients are summed in the order of their micro-batches' numbers.
 *
 * A stage's model is a part (tess_model_part), and its fsdp has the mesh's data axes, so inside a stage everything
 * works as without a pipeline. All micro-batches of a step are open in fsdp at once (tess_fsdp_micro_begin_all). A
 * unit counts its own backwards. They run in the order of micro-batches, whatever other units do in between, so its
 * sum is the same tree. The last stage computes the losses, and all ranks receive their sum. */
#ifndef TESS_ENGINE_STAGES_RANK_STAGE_H
#define TESS_ENGINE_STAGES_RANK_STAGE_H

#include "parallel/pipeline/pipeline.h"
#include "engine/engine.h"

/* How a pipeline is cut into stages, and this rank's part. In some schedules a rank has several chunks of layers,
 * and each is a stage of its own. */
struct tess_stage_plan {
    tess_pipeline_schedule shape; /* only kind, ranks and chunks are set */
    const char *csv; /* file with the order of computations; "": that of the kind. Borrowed from the configuration */
    int rank;
    int *first;      /* (stages + 1) stage g has layers first[g] .. first[g + 1] */
    int64_t *layers; /* (n_layers) numbers of this rank's layers, ascending; chunk after chunk */
    int n_layers;
    tess_slot_units *units; /* (chunks) the units of each chunk in the rank's model */
    tess_slot_units *slots; /* (n_slots) the units of each of the executor's slots; set by tess_stage_slots */
    int n_slots;
    int n_sets;     /* micro-batches under way at once (tess_pipeline_sets); set by tess_stage_slots */
    int n_spares;   /* buffers that replace those of unread messages (tess_pipeline_unread); set by tess_stage_slots */
    int *own_param; /* (n_params of the whole model) number in the rank's fsdp; -1: another rank owns the parameter */
    tess_model_part part;
};

/* Plans the stages. TESS_E_INVALID: more stages than layers, or layers_per_stage does not give a multiple of the
 * ranks. */
tess_status tess_stage_plan_create(tess_mem *mem, const tess_config *config, const tess_model_config *model, int rank,
                                   tess_stage_plan *plan);
void tess_stage_plan_free(tess_mem *mem, tess_stage_plan *plan);
/* Sets the share of the layers and of the experts that the rank at these coordinates has. */
void tess_stage_part_share(const tess_coordinates *at, tess_model_part *part);
/* Creates the part of the model that a rank has at these places along "pp" and "tp". Errors are the same. */
tess_status tess_stage_create_part(tess_mem *mem, const tess_config *config, const tess_model_config *model, int pp,
                                   int tp, tess_model **part);

enum { TESS_STAGE_LAYERS = 24 };
/* stage_report.c: writes the layers of a stage, such as "0-5", or "7" for one layer. Returns text. */
const char *tess_stage_layers(const tess_stage_plan *plan, int stage, char text[TESS_STAGE_LAYERS]);

/* Prints one line for each rank of the pipeline, with its stages and their layers. tess_stage_plan_json returns the
 * same for programs, as a new reference: {"schedule", "stages": [{"pp", "first_layer", "n_layers", "embedding",
 * "head"}]}. */
tess_status tess_stage_plan_print(const tess_stage_plan *plan, tess_buffer *out);
json_t *tess_stage_plan_json(const tess_stage_plan *plan);

/* Prints a line about the stages, and the bubble with n_local micro-batches. */
tess_status tess_stage_plan_describe(tess_mem *mem, const tess_stage_plan *plan, const tess_model *whole,
                                     int64_t seq_len, int n_local, tess_buffer *out);

/* Checks that the order of the schedule can be built for n_local micro-batches, before there is a model.
 * TESS_E_INVALID: it cannot, or the CSV file is not a schedule for these stages; the message names the option */
tess_status tess_stage_check_order(tess_mem *mem, const tess_stage_plan *plan, int n_local);

/* Builds the rank's schedule for n_local micro-batches. `model` is its part of the model.
 * TESS_E_INVALID: the schedule needs another number of micro-batches */
tess_status tess_stage_build(tess_mem *mem, const tess_stage_plan *plan, const tess_model *model, int n_local,
                             tess_pipeline_schedule *schedule);

/* Sets the executor's options for that schedule: slots of activations, and waiting gradients of a tied table.
 * options->slot_units points to plan->slots. Errors are those of tess_stage_build. */
tess_status tess_stage_slots(tess_mem *mem, tess_stage_plan *plan, const tess_model *model, int n_local,
                             tess_executor_options *options);

/* Sets plan->own_param. `model` is the rank's part of `whole`. */
tess_status tess_stage_own_params(tess_mem *mem, tess_stage_plan *plan, const tess_model *whole,
                                  const tess_model *model);

/* Returns at which ends a slot of the chunk has a buffer for the stream, (T, C). The buffer below the first stage
 * holds the gradient of the embedding's stream, from which the embedding's part of a tied table's gradient is
 * computed. */
void tess_stage_ends(const tess_stage_plan *plan, const tess_model *model, int chunk, bool *below, bool *above);

/* Creates the stage of an engine. The engine's sharding and executor must exist. */
tess_status tess_stage_create(tess_engine *engine, tess_stage **stage);
void tess_stage_destroy(tess_stage **stage);

/* Returns how many micro-batches a step of n_micro runs, over all ranks: empty ones follow if the schedule takes no
 * such number. */
int64_t tess_stage_fill_up(const tess_stage *stage, int64_t n_micro);
/* Runs this rank's part of a step's n_local micro-batches, between fsdp's step_begin and step_end. The arrays of the
 * source's batches must be valid throughout the step. Collective over the pipeline. */
tess_status tess_stage_run(tess_stage *stage, const tess_batch_source *source, int n_local, tess_loss_sum *own);

/* Sends the weights of a tied table from the rank that owns it to the rank that has a copy. Call it after an update,
 * and whenever weights have changed in another way. Collective over the pipeline. */
tess_status tess_stage_share_table(tess_stage *stage);
/* Compares that copy with the owner's weights. `hash` is the hash of this rank's part of the table. On the owner,
 * *differs is the rank of the job whose copy has another hash, or -1. Collective over the pipeline. */
tess_status tess_stage_compare_table(tess_stage *stage, uint64_t hash, int *differs);

/* Returns the times, in ms, of the actions of the latest step that metrics.pipeline_timeline selects. Only on rank
 * 0, and once after each such step. Returns false if there is none. Valid until the next step. */
bool tess_stage_timeline(tess_stage *stage, const tess_pipeline_schedule **schedule,
                         const tess_pipeline_report **report);

/* The messages that this rank has sent. */
typedef struct tess_stage_traffic {
    uint64_t messages[TESS_PIPELINE_OPS], bytes[TESS_PIPELINE_OPS]; /* indexed by the operation that sends */
} tess_stage_traffic;
tess_stage_traffic tess_stage_get_traffic(const tess_stage *stage);

/* Returns how many of n_local micro-batches a dry step needs: further ones repeat the same calls. */
int tess_stage_enough(const tess_stage *stage, int n_local);

/* Runs this rank's chunks forward on a batch. The rank with the head computes the task. The executor is the engine's,
 * or one for the same model that has one slot. Collective over the pipeline, whose ranks pass the same batch.
 * TESS_E_INVALID: the batch has more tokens than a micro-batch may have */
tess_status tess_stage_evaluate(tess_stage *stage, tess_executor *executor, const tess_batch *batch,
                                const tess_head_task *task);
/* Gives all ranks of the pipeline the bytes of the rank with the head, or the failure `status` of any rank. Collective
 * over the pipeline. */
tess_status tess_stage_share(tess_stage *stage, tess_status status, void *data, size_t bytes);

#endif
