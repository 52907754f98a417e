/* Holds the weights of all units gathered, so that a rank can draw samples for any length of time. They are the same
 * copies that training reads, or a separate copy on a rank that does not train.
 *
 * Ranks that divide experts have answers of other lengths, so they cannot exchange rows while they draw. Each holds a
 * copy of all experts. Tensor-parallel ranks draw together: they divide the experts of that copy among themselves. */
#ifndef TESS_ENGINE_HELD_WEIGHTS_H
#define TESS_ENGINE_HELD_WEIGHTS_H

#include "engine/engine.h"

typedef struct tess_held_weights {
    tess_engine *engine; /* the engine whose units are held; NULL: a separate copy */
    int n_units;         /* units of the engine that are held */
    const tess_model *model;
    const void **w;       /* (n_params) of the model, where the hooks of the engine have them */
    tess_hooks of_host;   /* hooks that give w */
    tess_compute compute; /* the owner's device and stream, with separate hooks */
    /* If ranks divide the experts: the model with those of this rank while it draws, their weights, and the team of
     * the tensor-parallel ranks; else NULL */
    tess_model *own_model;
    void *experts;
    tess_expert_team *team;
} tess_held_weights;

/* Gathers the weights of all units of this rank's part of the model. Call it between steps; the engine must not run a
 * step until they are released. compute.hooks do not communicate. Collective. */
tess_status tess_weights_hold(tess_engine *engine, tess_held_weights *held);
/* Holds parameters that are already in this rank's memory: w (n_params) of `dtype`. The array is copied; the
 * parameters are borrowed and must not change until they are released. compute: device and stream; borrowed, like
 * the model. Not collective. */
tess_status tess_weights_hold_copy(const tess_compute *compute, const tess_model *model, const void *const *w,
                                   tess_dtype dtype, tess_held_weights *held);
/* Releases the weights and frees the copies that training does not need. Call it also after an error. Collective
 * over the ranks of the engine. */
tess_status tess_weights_let_go(tess_held_weights *held);

/* Computes a digest of all master weights. It is the same on any number of ranks. Equal weights have equal digests;
 * different weights almost never do. Reads every weight once. Collective. */
tess_status tess_weights_digest(const tess_engine *engine, uint64_t *digest);

#endif
