/* How a step's tokens were distributed over the experts of each layer, and its auxiliary losses. */
#ifndef TESS_ENGINE_NUMBERS_EXPERT_LOADS_H
#define TESS_ENGINE_NUMBERS_EXPERT_LOADS_H

#include "engine/engine.h"

/* Allocates e->loads if the model has experts. */
tess_status tess_loads_create(tess_engine *engine);
/* Clears the sums before a run over a step's micro-batches. */
void tess_loads_begin(tess_engine *engine);
/* Sets the report's `load` from the sums of all ranks, and leaves this rank's as they are. `divisor`: the step's.
 * Collective. */
tess_status tess_loads_measure(tess_engine *engine, double divisor, tess_load_report *report);
/* Returns the tokens (E) of a layer's experts over all ranks, as tess_loads_measure has summed them last. */
const int64_t *tess_loads_of_layer(const tess_engine *engine, int64_t layer);

#endif
