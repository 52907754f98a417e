/* Holds the weights of all units gathered, so that a rank can draw samples for any length of time. They
 * are the same copies that training reads, or a separate copy on a rank that does not train. */
#ifndef TESS_ENGINE_HELD_WEIGHTS_H
#define TESS_ENGINE_HELD_WEIGHTS_H

#include "engine/engine.h"

typedef struct tess_held_weights {
    tess_engine *engine; /* the engine whose units are held; NULL: a separate copy */
    const tess_model *model;
    const void **w;       /* (n_params) in host memory */
    tess_hooks of_host;   /* hooks that give w */
    tess_compute compute; /* the owner's device and stream, with separate hooks */
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
