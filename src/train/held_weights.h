/* Weights of all units, gathered at once and held: what a rank draws samples with, alone and for as long as it likes,
 * from the same copies that training reads. */
#ifndef TESS_TRAIN_HELD_WEIGHTS_H
#define TESS_TRAIN_HELD_WEIGHTS_H

#include "train/engine.h"

typedef struct tess_held_weights {
    tess_engine *engine;
    const void **w;       /* (n_params) of the host */
    tess_hooks of_host;   /* with w */
    tess_compute compute; /* the engine's device and stream, and hooks of its own */
} tess_held_weights;

/* Gathers. Between steps; the engine makes no step until they are let go. compute.hooks never meet other ranks. A part
 * of a model (pipeline, tensor parallelism) is refused: TESS_E_UNSUPPORTED. Collective. */
tess_status tess_weights_hold(tess_engine *engine, tess_held_weights *held);
/* Frees the copies that training does not need. Collective, also after an error. */
tess_status tess_weights_let_go(tess_held_weights *held);

/* A digest of all master weights, the same on any number of ranks: equal weights have equal digests, and others hardly
 * ever. Reads every weight once. Collective. */
tess_status tess_weights_digest(const tess_engine *engine, uint64_t *digest);

#endif
