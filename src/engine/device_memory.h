/* Checks that the ranks that share a GPU together fit into its memory, before they allocate any. */
#ifndef TESS_ENGINE_DEVICE_MEMORY_H
#define TESS_ENGINE_DEVICE_MEMORY_H

#include "engine/engine.h"

/* The bytes that a rank is about to allocate on its device. */
typedef struct tess_device_need {
    uint64_t activations; /* the executor's, the logits among them, and results for each token */
    uint64_t exchanges;   /* the room for exchanges with ranks that share the model or divide its tokens */
    uint64_t copies;      /* parameters and gradients of the units that are on the device at the same time */
} tess_device_need;

/* Returns what the executor of the engine's own model needs. */
tess_device_need tess_device_need_of(const tess_engine *engine, const tess_executor_options *options);

/* Compares the memory that the ranks of each device need together with what is free there. Call it when every rank
 * has opened its device and before it allocates what it needs. Ranks on the host need nothing. Collective over the
 * engine's team.
 * TESS_E_INVALID, on all ranks: the memory is not enough. The message names the device, what is needed and what is
 * free, which other ranks use it, and what would help. job.ignore_memory=true skips the check. */
tess_status tess_device_memory_check(tess_engine *engine, const tess_device_need *need);

#endif
