/* Checks that the ranks that share a GPU together fit into its memory, before they allocate any. */
#ifndef TESS_ENGINE_DEVICE_MEMORY_H
#define TESS_ENGINE_DEVICE_MEMORY_H

#include "engine/engine.h"

/* Compares the memory that the ranks of each device need together with what is free there. Call it when every rank
 * has opened its device and before it allocates for the executor. Ranks on the host need nothing. Collective over
 * the engine's team.
 * TESS_E_INVALID, on all ranks: the memory is not enough. The message names the device, what is needed and what is
 * free, which other ranks use it, and what would help. job.ignore_memory=true skips the check. */
tess_status tess_device_memory_check(tess_engine *engine, const tess_executor_options *options);

#endif
