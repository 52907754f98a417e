/* Decides whose memory has weights, gradients and moments (job.shards).
 *
 * The host's: the executor alone computes on the device (compute.h). Sharding, collectives, optimizer, checks and
 * checkpoints know nothing of it. Hooks around hooks (nn/staging.h) upload a unit's parameters before it runs and
 * download its gradients before they are reduced. So a model larger than the device's memory trains.
 *
 * The device's: fsdp gets the executor's stream (tess_fsdp_set_stream), whose device has its memory. The code is the
 * same: it calls rows of the stream's table on pointers. Hooks hand out these pointers, so nothing is copied. The host
 * reads two things a step: the sum of losses, and the sums of squares of rows. Each rank has gathered copies of its
 * own, and peers read what collectives show (comm/device_windows.h). The host has a copy of the shards
 * (parallel/fsdp/fsdp_mirror.c). */
#ifndef TESS_ENGINE_SHARDS_H
#define TESS_ENGINE_SHARDS_H

#include "engine/engine.h"

/* Sets engine->compute.resident, the same on all ranks, and engine->shards_note. The model and the device are there. A
 * second engine has its shards on the host. `device_need`: see tess_engine_options. Collective. TESS_E_INVALID,
 * TESS_E_UNSUPPORTED: job.shards=device asks for what does not work; the message names the key and what to set. */
tess_status tess_shards_choose(tess_engine *engine, tess_device_need_fn device_need);

/* ---- Facts of the configuration alone ---- */
/* job.shards, or what TESSERA_SHARDS says instead of AUTO. */
tess_status tess_shards_read(const tess_config *config, tess_shards_choice *choice);
/* TESS_E_UNSUPPORTED: it asks for what does not work with shards on a device. */
tess_status tess_shards_check_config(const tess_config *config);
bool tess_shards_is_gpu(const char *device); /* true for a GPU's name; NULL: no device */
/* Whether a run of this configuration is expected to have its shards on a device, before there is one: where the
 * configuration or the environment asks for it, or for a GPU that can. */
bool tess_shards_expected(const tess_config *config);

#endif
