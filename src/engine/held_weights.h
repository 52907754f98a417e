/* Weights of all units, gathered at once and held: what a rank draws samples with, alone and for as long as it likes,
 * from the same copies that training reads, or from a copy of its own where it does not train. */
#ifndef TESS_ENGINE_HELD_WEIGHTS_H
#define TESS_ENGINE_HELD_WEIGHTS_H

#include "engine/engine.h"

typedef struct tess_held_weights {
    tess_engine *engine; /* the engine whose units are held; NULL: none is */
    const tess_model *model;
    const void **w;       /* (n_params) memory of the host */
    tess_hooks of_host;   /* hooks that give w */
    tess_compute compute; /* the owner's device and stream, and hooks of its own */
} tess_held_weights;

/* Gathers. Between steps; the engine makes no step until they are released. compute.hooks never meet other ranks. A
 * part of a model (pipeline, tensor parallelism) is refused: TESS_E_UNSUPPORTED. Collective. */
tess_status tess_weights_hold(tess_engine *engine, tess_held_weights *held);
/* Holds parameters that lie in this rank's memory already: w (n_params) of `dtype`, which stay as they are until they
 * are released; the array is copied. compute: device and stream; borrowed, as the model is. Not collective. */
tess_status tess_weights_hold_copy(const tess_compute *compute, const tess_model *model, const void *const *w,
                                   tess_dtype dtype, tess_held_weights *held);
/* Frees the copies that training does not need. Collective over the ranks of the engine, also after an error. */
tess_status tess_weights_let_go(tess_held_weights *held);

/* A digest of all master weights, the same on any number of ranks: equal weights have equal digests, and others hardly
 * ever. Reads every weight once. Collective. */
tess_status tess_weights_digest(const tess_engine *engine, uint64_t *digest);

#endif
