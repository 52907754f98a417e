/* Whether the ranks that share a GPU have room on it, before they take any. */
#ifndef TESS_ENGINE_DEVICE_MEMORY_H
#define TESS_ENGINE_DEVICE_MEMORY_H

#include "engine/engine.h"

/* Collective over the engine's team, once every rank has its device open and will soon allocate what the executor
 * needs: what ranks on one device need together is at most what is free there. Ranks on the host need nothing.
 * TESS_E_INVALID, on all ranks: it is not. The message names the device, what is needed and free, who else uses it, and
 * what would help; job.ignore_memory=true goes on. */
tess_status tess_device_memory_check(tess_engine *engine, const tess_executor_options *options);

#endif
