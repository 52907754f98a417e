/* Counts of some blocks of a launch, taken for all of them. */
#ifndef TESS_TESTS_DEVICE_PTX_PTX_SAMPLE_H
#define TESS_TESTS_DEVICE_PTX_PTX_SAMPLE_H

#include "device/ptx/ptx_machine.h"

typedef struct ptx_sample ptx_sample;

/* Returns NULL if there is no memory. */
ptx_sample *ptx_sample_create(const ptx_launch *launch);
void ptx_sample_free(ptx_sample *sample);
/* Begins a block. */
void ptx_sample_block(ptx_sample *sample);
/* Notes that a warp reads or writes a sector of global memory. Returns whether the block has not used it before. */
bool ptx_sample_sector(ptx_sample *sample, uint64_t sector, bool writes);
/* Sets the counts of the whole launch from those of the blocks that ran. */
void ptx_sample_end(ptx_sample *sample, unsigned n_ran, ptx_counts *counts);

/* Returns a number that equal launches share: the same kernel, grid and parameters, where addresses of allocations are
 * equal if their last 4 bits are. */
uint64_t ptx_sample_key(const ptx_launch *launch);

#endif
