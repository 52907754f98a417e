/* Decides whether weights, gradients and moments are in host memory or in the device's memory (job.shards).
 *
 * In host memory: only the executor computes on the device (compute.h). Sharding, collectives, optimizer, checks and
 * checkpoints do not notice the device. A wrapper of the hooks (nn/staging.h) uploads a unit's parameters before it
 * runs and downloads its gradients before they are reduced. So a model larger than the device's memory can train.
 *
 * In the device's memory: fsdp uses the executor's stream (tess_fsdp_set_stream), and allocates on its device. The
 * code is the same: it calls kernels of the stream's table on pointers. Hooks return these pointers, so nothing is
 * copied. The host reads two results per step: the sum of losses, and the sums of squares of rows. Each rank has
 * gathered copies of its own, and peers read the memory that collectives expose (comm/device_windows.h). The host
 * keeps a copy of the shards (device/home/home.h). */
#ifndef TESS_ENGINE_SHARDS_H
#define TESS_ENGINE_SHARDS_H

#include "engine/engine.h"

/* Sets engine->compute.resident, the same on all ranks, and engine->compute.shards_note. The model must exist and the
 * device be open. A second engine has its shards on the host. `device_need`: see tess_engine_options. Collective.
 * TESS_E_INVALID, TESS_E_UNSUPPORTED: job.shards=device cannot be satisfied; the message names the key and what to
 * set */
tess_status tess_shards_choose(tess_engine *engine, tess_device_need_fn device_need);

#endif
