/* A stage of a pipeline: the layers of this rank, the schedule that they run by, and the messages to the stages before
 * and after it. The bits are those of one stage: each micro-batch is computed as ever, and gradients are summed by the
 * number of their micro-batch. */
#ifndef TESS_TRAIN_TRAIN_STAGE_H
#define TESS_TRAIN_TRAIN_STAGE_H

#include "train/engine.h"

/* The layers of stage `stage`. TESS_E_INVALID: more stages than layers, or tied embeddings. */
tess_status tess_stage_part(const tess_config *config, const tess_model_config *model, int stage,
                            tess_model_part *part);

/* Micro-batches that a stage holds at once in a step of the configuration, with n_data ranks at each stage. */
tess_status tess_stage_slots(tess_mem *mem, const tess_config *config, int stage, int n_data, int *slots);

/* For an engine whose sharding and executor exist. */
tess_status tess_stage_create(tess_engine *engine, tess_stage **stage);
void tess_stage_destroy(tess_stage **stage);

/* This rank's part of a step's n_local micro-batches, between fsdp's step_begin and step_end. The arrays of the
 * source's batches are valid through the step. Collective over the pipeline. */
tess_status tess_stage_run(tess_stage *stage, const tess_batch_source *source, int n_local, tess_loss_sum *own);

/* Adds the losses of a batch to the meter, forward only: a rank of the last stage counts its tokens in *sum. Collective
 * over the pipeline, whose ranks give the same batch. */
tess_status tess_stage_score(tess_stage *stage, const tess_batch *batch, tess_loss_sum *sum);

#endif
