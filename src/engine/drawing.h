/* The options with which ranks draw samples of the model that they train. Ranks that have parts of it draw together. */
#ifndef TESS_ENGINE_DRAWING_H
#define TESS_ENGINE_DRAWING_H

#include "engine/held_weights.h"
#include "infer/generate.h"

/* Returns the options of a generator for n samples, as the configuration describes them. If ranks share the model, a
 * pass has at most the rows of a micro-batch, for which their exchanges and messages have room. */
tess_generator_options tess_drawing_options(const tess_config *config, int64_t n_samples);

/* Adds the other ranks that have a part of the engine's model, whose weights are held, if there are any. Collective. */
tess_status tess_drawing_share(tess_held_weights *held, tess_generator_options *options);

#endif
