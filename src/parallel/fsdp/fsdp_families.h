/* Families of units: units whose parameters the same ranks divide. */
#ifndef TESS_PARALLEL_FSDP_FSDP_FAMILIES_H
#define TESS_PARALLEL_FSDP_FSDP_FAMILIES_H

#include "tessera/fsdp.h"

typedef struct tess_fsdp_family tess_fsdp_family;

/* Adds a family: n_shards consecutive ranks of the data axes divide the parameters of its units, and every n_shards
 * ranks hold a replica. Units of tess_fsdp_add_unit belong to the family of the axis "dp_shard". `name` is borrowed
 * until destroy. Call it before materialize. Collective over the mesh.
 * TESS_E_INVALID: n_shards does not divide the number of data ranks, or reshard_after_forward does not divide n_shards;
 * then the only valid call is destroy */
tess_status tess_fsdp_add_family(tess_fsdp *fsdp, const char *name, int n_shards, tess_fsdp_family **family);

/* Like tess_fsdp_add_unit, for a unit of this family. */
tess_status tess_fsdp_add_unit_to(tess_fsdp_family *family, const char *name, const tess_param_desc *params,
                                  int n_params, tess_unit **unit);

/* Sets the number of micro-batches of a step over all ranks: 1 if never called, and steps may have other numbers. If it
 * takes many partial sums, each replica keeps a part of them. The bits do not depend on it. Call it before the first
 * unit. */
void tess_fsdp_set_step_size(tess_fsdp *fsdp, int64_t n_micro_batches);

#endif
