/* How the layers of a model are cut into the stages of a pipeline. A stage has consecutive layers, one or more; the
 * first stage has the embedding besides, the last one the head. */
#ifndef TESS_PARALLEL_PIPELINE_PIPELINE_STAGES_H
#define TESS_PARALLEL_PIPELINE_PIPELINE_STAGES_H

#include "parallel/pipeline/pipeline.h"

/* Counts the stages of a model when each has `layers_per_stage` layers, embedding and head counted as `first_less` and
 * `last_less` of them (torchtitan's pipeline_parallel_layers_per_stage). `chunks` is how many each of `ranks` gets.
 * TESS_E_INVALID: the stages are not a multiple of the ranks, the schedule does not take this many chunks, or a stage
 * would have no layer; the message says which numbers of layers would do. */
tess_status tess_pipeline_count_stages(tess_pipeline_kind kind, int layers, int layers_per_stage, int first_less,
                                       int last_less, int ranks, int *chunks);

/* Cuts by counts: stages of equal size, the first ones with a layer more where that does not divide; embedding and head
 * count as `first_less` and `last_less` layers. Stage g has the layers first[g] .. first[g + 1]; first has
 * stages + 1 elements. TESS_E_INVALID: a stage would have no layer. */
tess_status tess_pipeline_cut_evenly(int layers, int first_less, int last_less, int stages, int *first);

/* Cuts by costs (layers), in any unit, such that the most expensive stage is as cheap as can be; among those cuts the
 * most even one (the least sum of squares). `embedding` and `head` are costs of the first and the last stage. Exact, in
 * stages * layers^2 steps. TESS_E_INVALID: a stage would have no layer, or a cost is no finite number of 0 or more. */
tess_status tess_pipeline_cut_by_cost(tess_mem *mem, const double *costs, int layers, double embedding, double head,
                                      int stages, int *first);

#endif
