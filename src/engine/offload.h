/* Keeps training state on disk (offload.*): chooses the memory pools, makes their files, and sizes the pager. */
#ifndef TESS_ENGINE_OFFLOAD_H
#define TESS_ENGINE_OFFLOAD_H

#include "tessera/fsdp.h"
#include "tessera/runtime.h"
#include "config/config.h"

typedef struct tess_offload tess_offload;

/* The pools that are on disk, as bits 1 << tess_pool. */
unsigned tess_offload_pools(const tess_config *config);

/* Puts those pools of the runtime's memory on disk. Call it before anything is allocated in them. If the launcher
 * has made a persistent block on disk for this rank, named memory is placed in it. *offload is NULL if nothing is
 * offloaded, or if another engine of this rank has already begun.
 * TESS_E_NO_SPACE, TESS_E_IO: the message names the folder */
tess_status tess_offload_begin(tess_runtime *runtime, const tess_config *config, tess_offload **offload);
/* Returns how many bytes of state may be in memory: offload.resident, or, if that is 0, an amount that is fast. It
 * is at least *at_once, which is what the units of `fsdp` use at once, with `n_micro` micro-batches per step, plus
 * `activations`. */
size_t tess_offload_resident(const tess_config *config, const tess_fsdp *fsdp, int64_t n_micro, size_t activations,
                             size_t *at_once);
/* Raises the limit of the pager of `mem` to that amount, if it is lower. */
void tess_offload_make_room(tess_mem *mem, const tess_config *config, const tess_fsdp *fsdp, size_t activations);
/* Ends the offload. The memory in those pools must have been freed. *offload may be NULL. */
void tess_offload_end(tess_offload **offload);

/* Checks the free space. TESS_E_NO_SPACE: the file system of offload.folder has less than `bytes` free; the message
 * names the folder, the bytes needed and the bytes free. */
tess_status tess_offload_check_space(const tess_config *config, double bytes);

#endif
