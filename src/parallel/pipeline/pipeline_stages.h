/* Divides the layers of a model into the stages of a pipeline. A stage has one or more consecutive layers; the first
 * stage also has the embedding, the last one the head. */
#ifndef TESS_PARALLEL_PIPELINE_PIPELINE_STAGES_H
#define TESS_PARALLEL_PIPELINE_PIPELINE_STAGES_H

#include "parallel/pipeline/pipeline.h"

/* Counts the stages of a model when each has `layers_per_stage` layers, embedding and head counted as `first_less`
 * and `last_less` of them (torchtitan's pipeline_parallel_layers_per_stage). Sets `chunks` to the number of stages
 * per rank. TESS_E_INVALID: the number of stages is not a multiple of the ranks, the schedule does not allow this
 * many chunks, or a stage would have no layer; the message says which numbers of layers are possible. */
tess_status tess_pipeline_count_stages(tess_pipeline_kind kind, int layers, int layers_per_stage, int first_less,
                                       int last_less, int ranks, int *chunks);

/* Divides by counts into stages of equal size. If the count does not divide, the first stages get one layer more.
 * Embedding and head count as `first_less` and `last_less` layers. Stage g has the layers first[g] .. first[g + 1];
 * `first` has stages + 1 elements. TESS_E_INVALID: a stage would have no layer. */
tess_status tess_pipeline_cut_evenly(int layers, int first_less, int last_less, int stages, int *first);

/* Divides by the costs of the layers (layers), in any unit, so that the most expensive stage is as cheap as
 * possible. Of several such divisions it takes the most even one (least sum of squares). `embedding` and `head` are
 * additional costs of the first and the last stage. The result is exact; it takes stages * layers^2 steps.
 * TESS_E_INVALID: a stage would have no layer, or a cost is no finite number of 0 or more. */
tess_status tess_pipeline_cut_by_cost(tess_mem *mem, const double *costs, int layers, double embedding, double head,
                                      int stages, int *first);

#endif
