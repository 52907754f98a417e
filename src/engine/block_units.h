/* Groups the blocks of a rank's model into units of fsdp (parallelism.fsdp_unit_*). */
#ifndef TESS_ENGINE_BLOCK_UNITS_H
#define TESS_ENGINE_BLOCK_UNITS_H

#include "base/mem/scoped.h"
#include "nn/model.h"
#include "tessera/fsdp.h"
#include "config/config.h"

/* The units that gather a block's parameters. They are the unit's parameters from `first` on. If ranks divide a layer's
 * experts, these are in a unit of their own. */
typedef struct tess_block_unit {
    tess_unit *unit, *experts; /* experts NULL: the block has none, or `unit` has them */
    int first, first_expert;
    int begin, end; /* the block's parameters [begin, end) are those of its experts, if these have a unit */
} tess_block_unit;

/* Returns the number that fsdp gives the block's parameter. */
int tess_block_unit_number(const tess_block_unit *block, int index);

/* Call the hooks of a block's units. */
tess_status tess_block_pre_forward(const tess_block_unit *block);
tess_status tess_block_post_forward(const tess_block_unit *block);
tess_status tess_block_pre_backward(const tess_block_unit *block);
tess_status tess_block_post_backward(const tess_block_unit *block);

/* Return the memory of a block's parameter and of its gradient while hooks have them open. */
const void *tess_block_unit_param(const tess_block_unit *block, int index);
float *tess_block_unit_grad(const tess_block_unit *block, int index);

/* The parameters of a model and their gradients while hooks have them open: addresses that fsdp's units return. */
typedef struct tess_block_params {
    const void **w; /* (n_params) */
    float **dw;     /* (n_params) NULL for frozen parameters */
} tess_block_params;

/* TESS_E_NOMEM: memory ran out; free it then, too */
tess_status tess_block_params_create(tess_scope *scope, const tess_model *model, tess_block_params *params);
/* Sets the addresses of a block whose unit is open for forward, or with its gradients for `backward`. *first: number of
 * the block's first parameter */
void tess_block_params_open(const tess_block_params *params, const tess_model *model, int block,
                            const tess_block_unit *unit, bool backward, int *first);

/* Adds the units to `fsdp`. blocks (tess_model_n_units) receives the unit of each block.
 * experts: the family of the experts that ranks divide, or NULL
 * resident: shards are in a device's memory
 * TESS_E_NOMEM: memory ran out */
tess_status tess_block_units_add(tess_mem *mem, const tess_config *config, const tess_model *model,
                                 const tess_slot_units *chunks, int n_chunks, bool resident, tess_fsdp *fsdp,
                                 tess_fsdp_family *experts, tess_block_unit *blocks);

/* Returns the codes (tess_param_desc.codes) as which ranks gather the parameters that tess_model_owns_rows names; 0:
 * as values. */
int tess_gathered_codes(const tess_config *config, const tess_fsdp *fsdp);

/* Whether ranks hold the parameter in the compute dtype alone, without float32 master weights. Every strategy shards
 * such a parameter. */
bool tess_param_is_narrow(const tess_config *config, const tess_model *model, int param, bool resident);

#endif
