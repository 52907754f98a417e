/* A model that a program outside of the library computes (tessera/loop_program.h), in place of the engine's executor.
 * Sharding, the step, the checks of its numbers and the update are those of any other model. */
#ifndef TESS_ENGINE_FOREIGN_H
#define TESS_ENGINE_FOREIGN_H

#include "engine/engine.h"
#include "tessera/loop_program.h"

/* TESS_E_INVALID: a callback or a unit is missing, or a name is too long or empty. Names that are used twice are found
 * when the model and its units are made. */
tess_status tess_foreign_check(const tess_program *program);

/* Describes the parameters of the program's model. */
tess_status tess_foreign_model(tess_mem *mem, const tess_program *program, tess_model **model);

/* Adds the units of the engine's program to its fsdp, and a hook that watches their numbers and phases. Parameters that
 * training.freeze names do not train. */
tess_status tess_foreign_add_units(tess_engine *engine);
/* Hands fsdp and units over to the program. Call it after materialize. */
tess_status tess_foreign_ready(tess_engine *engine);

/* Runs this rank's micro-batch `local` of the source's step, and adds its loss to *own. */
tess_status tess_foreign_micro_batch(tess_engine *engine, const tess_batch_source *source, int64_t local,
                                     tess_loss_sum *own);
/* Runs the program's own update. */
tess_status tess_foreign_update(tess_engine *engine, float lr, float scale);

/* Adds a loss of the program. TESS_E_INVALID: its number of items is negative */
tess_status tess_foreign_add_loss(tess_loss_sum *sum, const tess_program_loss *loss);

#endif
