/* The executor's insides: the plan of its memory (executor_plan.c), and the walk over the units (executor_walk.c). */
#ifndef TESS_NN_EXECUTOR_IMPL_H
#define TESS_NN_EXECUTOR_IMPL_H

#include "nn/layers/layers.h"

struct tess_executor {
    tess_stream *stream;
    const tess_model *model;
    tess_hooks hooks;
    tess_executor_options options;
    void *memory;             /* all activations */
    tess_layer_saved *layers; /* (L) */
    tess_layer_work work;
    tess_norm_stats final_stats;
    tess_head_work head;
    float *cos_table, *sin_table;
    tess_watch watch; /* see NULL: none */
};

/* Places all activations from `base` on and sets the pointers (layers[] only if it exists). base NULL only counts.
 * Returns the bytes, or SIZE_MAX if they overflow. */
size_t tess_executor_plan(tess_executor *executor, char *base);

/* Sizes, ids, positions, targets in range. */
tess_status tess_executor_check_batch(const tess_executor *executor, const tess_batch *batch);

#endif
