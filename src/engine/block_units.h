/* Chooses the blocks of a rank's model that make a unit of fsdp (parallelism.fsdp_unit_*). */
#ifndef TESS_ENGINE_BLOCK_UNITS_H
#define TESS_ENGINE_BLOCK_UNITS_H

#include "nn/model.h"
#include "parallel/fsdp/fsdp_engine.h"
#include "config/config.h"

/* The unit that gathers a block's parameters: they are the unit's from `first` on. */
typedef struct tess_block_unit {
    tess_unit *unit;
    int first;
} tess_block_unit;

static inline const void *tess_block_unit_param(const tess_block_unit *block, int index)
{
    return tess_unit_param(block->unit, block->first + index);
}

static inline float *tess_block_unit_grad(const tess_block_unit *block, int index)
{
    return tess_unit_grad(block->unit, block->first + index);
}

/* Writes the number of each block's unit to unit_of (tess_model_n_units), and returns the number of units: the same on
 * all ranks of a stage. Blocks of different chunks of it run apart, so no unit has both; and in a
 * pipeline the head keeps to itself, because schedules that split the backward leave the layers' gradients for later.
 * TESS_E_NOMEM. */
tess_status tess_block_units_deal(tess_mem *mem, const tess_config *config, const tess_model *model,
                                  const tess_slot_units *chunks, int n_chunks, int *unit_of, int *n_units);

/* Adds them to `fsdp`; blocks (tess_model_n_units) gets where they are. `resident`: shards lie on a device.
 * TESS_E_NOMEM. */
tess_status tess_block_units_add(tess_mem *mem, const tess_config *config, const tess_model *model,
                                 const tess_slot_units *chunks, int n_chunks, bool resident, tess_fsdp *fsdp,
                                 tess_block_unit *blocks);

/* Whether ranks gather what can be as fp8 codes, and whether parameter `param` of the model is. */
bool tess_gathers_codes(const tess_config *config, const tess_fsdp *fsdp);
bool tess_param_is_coded(const tess_config *config, const tess_fsdp *fsdp, const tess_model *model, int param);

/* A matrix of a layer, or of its adapter: Muon updates it, and adamw8bit keeps its moments in 8 bits. */
bool tess_param_is_hidden(const tess_model *model, const tess_param *param);

#endif
