/* State of a training on disk (offload.*): which pools, their files, and the pager. */
#ifndef TESS_ENGINE_OFFLOAD_H
#define TESS_ENGINE_OFFLOAD_H

#include "parallel/fsdp/fsdp_engine.h"
#include "tessera/runtime.h"
#include "config/config.h"

typedef struct tess_offload tess_offload;

/* Bits 1 << tess_pool. */
unsigned tess_offload_pools(const tess_config *config);

/* Puts those pools of the runtime's memory on disk, before anything is allocated in them. Memory with names lies in
 * this rank's persistent block on disk where the launcher has made one. *offload is NULL if nothing is offloaded, or
 * another engine of this rank has begun it. TESS_E_NO_SPACE, TESS_E_IO name the folder. */
tess_status tess_offload_begin(tess_runtime *runtime, const tess_config *config, tess_offload **offload);
/* The most bytes of the state in memory: offload.resident, or if that is 0 what is fast; at least what the units of
 * `fsdp` use at once, with `n_micro` micro-batches a step, and `activations`, which is *at_once. */
size_t tess_offload_resident(const tess_config *config, const tess_fsdp *fsdp, int64_t n_micro, size_t activations,
                             size_t *at_once);
/* Gives the pager of `mem` that much, if it has less. */
void tess_offload_make_room(tess_mem *mem, const tess_config *config, const tess_fsdp *fsdp, size_t activations);
/* Once that memory is freed. NULL is fine. */
void tess_offload_end(tess_offload **offload);

/* TESS_E_NO_SPACE: the file system of offload.folder has less than `bytes` free. The message names the folder, what is
 * needed and what is there. */
tess_status tess_offload_check_space(const tess_config *config, double bytes);

#endif
