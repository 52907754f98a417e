/* This rank's stages of a pipeline: its layers, the schedule that they run by, and the messages to the stages before
 * and after them. The bits are those of one rank: each micro-batch is computed as ever, and gradients are summed by the
 * number of their micro-batch.
 *
 * A stage's model is a part (tess_model_part), and its fsdp has the mesh's data axes, so all inside a stage is as
 * without a pipeline. All micro-batches of a step are open in fsdp at once (tess_fsdp_micro_begin_all). A unit counts
 * its own backwards, which come in the order of micro-batches whatever other units do in between, so its sum is the
 * same tree. The last stage has the losses, and all ranks get their sum. */
#ifndef TESS_ENGINE_STAGES_RANK_STAGE_H
#define TESS_ENGINE_STAGES_RANK_STAGE_H

#include "parallel/pipeline/pipeline.h"
#include "engine/engine.h"

/* The cuts of a pipeline. A rank has several chunks of layers in some schedules, each a stage of its own. */
struct tess_stage_plan {
    tess_pipeline_schedule shape; /* kind, ranks and chunks alone */
    int rank;
    int *first;      /* (stages + 1) stage g has layers first[g] .. first[g + 1] */
    int64_t *layers; /* (n_layers) of this rank, ascending; chunk after chunk */
    int n_layers;
    tess_slot_units *units; /* (chunks) of the rank's model */
    tess_model_part part;
};

/* TESS_E_INVALID: more stages than layers, or layers_per_stage that does not give a multiple of the ranks. */
tess_status tess_stage_plan_create(tess_mem *mem, const tess_config *config, const tess_model_config *model, int rank,
                                   tess_stage_plan *plan);
void tess_stage_plan_free(tess_mem *mem, tess_stage_plan *plan);

enum { TESS_STAGE_LAYERS = 24 };
/* stage_report.c: "0-5", or "7" of one layer; returns text. */
const char *tess_stage_layers(const tess_stage_plan *plan, int stage, char text[TESS_STAGE_LAYERS]);

/* A line a place of the pipeline, with its stages and their layers; the same for programs, a new
 * reference: {"schedule", "stages": [{"pp", "first_layer", "n_layers", "embedding", "head"}]}. */
tess_status tess_stage_plan_print(const tess_stage_plan *plan, tess_buffer *out);
json_t *tess_stage_plan_json(const tess_stage_plan *plan);

/* A line on the stages and the bubble that n_local micro-batches leave. */
tess_status tess_stage_plan_describe(tess_mem *mem, const tess_stage_plan *plan, const tess_model *whole,
                                     int64_t seq_len, int n_local, tess_buffer *out);

/* The schedule of n_local micro-batches of the rank, whose part of the model is `model`. TESS_E_INVALID: the schedule
 * needs other numbers of them. */
tess_status tess_stage_build(tess_mem *mem, const tess_stage_plan *plan, const tess_model *model, int n_local,
                             tess_pipeline_schedule *schedule);

/* The slots of activations that it needs, and the gradients of a tied table that wait, as options of an executor.
 * *units: memory that options->slot_units points to, which the caller frees. Errors as tess_stage_build. */
tess_status tess_stage_slots(tess_mem *mem, const tess_stage_plan *plan, const tess_model *model, int n_local,
                             tess_executor_options *options, tess_slot_units **units);

/* Tells at which ends a slot of the chunk has a buffer for the stream, (T, C). The buffer below the first stage gets
 * the gradient that the embedding's part of a tied table's gradient is computed from. */
void tess_stage_ends(const tess_stage_plan *plan, const tess_model *model, int chunk, bool *below, bool *above);

/* Creates the stage of an engine whose sharding and executor exist. */
tess_status tess_stage_create(tess_engine *engine, tess_stage **stage);
void tess_stage_destroy(tess_stage **stage);

/* This rank's part of a step's n_local micro-batches, between fsdp's step_begin and step_end. The arrays of the
 * source's batches are valid through the step. Collective over the pipeline. */
tess_status tess_stage_run(tess_stage *stage, const tess_batch_source *source, int n_local, tess_loss_sum *own);

/* Brings the weights of a tied table to the rank that has a copy of it, from the rank that owns it: after an update,
 * and wherever else weights have changed. Collective over the pipeline. */
tess_status tess_stage_share_table(tess_stage *stage);
/* Compares that copy with the weights it was made of: `hash` is that of this rank's part of the table. *differs is set
 * on the rank that owns the table: the rank of the job whose copy has another hash, else -1. Collective over the
 * pipeline. */
tess_status tess_stage_compare_table(tess_stage *stage, uint64_t hash, int *differs);

/* When the actions of the newest step ran that metrics.pipeline_timeline is for, in ms: on rank 0, once after each such
 * step. False: there is none. Valid until the next step. */
bool tess_stage_timeline(tess_stage *stage, const tess_pipeline_schedule **schedule,
                         const tess_pipeline_report **report);

/* Calls what tess_stage_run calls, in its order, but hooks instead of computing, and with no batch. */
tess_status tess_stage_rehearse(tess_stage *stage, const tess_hooks *hooks, int n_local);
/* The number of n_local micro-batches that show all that a step does: the others repeat it. */
int tess_stage_rehearsed(const tess_stage *stage, int n_local);

/* Adds the losses of a batch to the meter, forward only: the rank with the head counts its tokens in *sum. Collective
 * over the pipeline, whose ranks give the same batch. */
tess_status tess_stage_score(tess_stage *stage, const tess_batch *batch, tess_loss_sum *sum);

#endif
