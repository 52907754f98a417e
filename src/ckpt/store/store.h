/* Training checkpoints: `<dir>/step-%08d/` with
 *
 *     model.safetensors      master weights, float32, by the model's own names
 *     optimizer.safetensors  moments: "<name>.exp_avg", "<name>.exp_avg_sq"
 *     meta.json              format, step, files with their sizes, a checksum of every tensor, and the caller's own
 * object
 *
 * Everything is by global name and row, so any number of ranks reads what any number wrote. A checkpoint is complete or
 * it does not exist: it is written as `step-%08d.tmp`, synced, and renamed last. There is no "latest" file to go stale:
 * the newest is found by looking. A tensor's checksum is the sum (mod 2^64) over its rows of XXH3-64(row bytes, seed =
 * row number): every rank adds its own rows, in any cut. */
#ifndef TESS_CKPT_STORE_H
#define TESS_CKPT_STORE_H

#include <jansson.h>

#include "ckpt/hosts.h"
#include "ckpt/store/tensor.h"

/* Writes a checkpoint; one of the same step is replaced at the end, in one step. Collective: all ranks pass the same
 * names, kinds and shapes in the same order. `meta` (borrowed; the first rank's counts) is kept as it is. `team` NULL:
 * alone. TESS_E_NO_SPACE, TESS_E_IO, ... on every rank alike: older checkpoints are untouched and nothing of this one
 * stays. */
tess_status tess_ckpt_save(tess_mem *mem, tess_team *team, const char *dir, int64_t step, const json_t *meta,
                           const tess_ckpt_tensor *tensors, int n_tensors);

/* Fills every tensor's `data` with its rows. Collective; any world size. When the ranks' primary rows cover a tensor
 * its checksum is verified (with no primary rows anywhere it is not). *meta (may be NULL) becomes a new reference to
 * the caller's object. TESS_E_NOT_FOUND: no such complete checkpoint; TESS_E_FORMAT: damaged, or of another model
 * (names the tensor); TESS_E_UNSUPPORTED: written by a newer format. */
tess_status tess_ckpt_load(tess_mem *mem, tess_team *team, const char *dir, int64_t step,
                           const tess_ckpt_tensor *tensors, int n_tensors, json_t **meta);

/* The highest complete step; TESS_E_NOT_FOUND when there is none (or no such folder). Incomplete ones are passed over.
 */
tess_status tess_ckpt_latest(const char *dir, int64_t *step);

/* Of the complete checkpoints up to step `newest`, keeps the newest `keep_latest_k` (0: all) and removes the older
 * ones; and what killed saves left behind. For one rank, while no save is running. */
tess_status tess_ckpt_prune(const char *dir, int keep_latest_k, int64_t newest);

/* ---- Host-local folders: `dir` is another folder on every host
 * ------------------------------------------------------- * A host's folder holds the rows of its ranks, in sparse
 * files of the same layout; its meta file says which ("part"), and its checksums are of those rows. It is complete when
 * those of all hosts are. Collective over hosts->all, one answer for all. */
tess_status tess_ckpt_save_local(tess_mem *mem, const tess_ckpt_hosts *hosts, const char *dir, int64_t step,
                                 const json_t *meta, const tess_ckpt_tensor *tensors, int n_tensors);

/* TESS_E_INVALID: a rank needs rows that its host's folder does not hold, as the hosts or their ranks are not those of
 * the save: the message names the tensor, a row, and the host that has it. A folder that holds everything serves any
 * ranks. */
tess_status tess_ckpt_load_local(tess_mem *mem, const tess_ckpt_hosts *hosts, const char *dir, int64_t step,
                                 const tess_ckpt_tensor *tensors, int n_tensors, json_t **meta);

/* The highest step that is complete on all hosts; *newest: on any of them. TESS_E_NOT_FOUND: no host has one;
 * TESS_E_INVALID: one host has and another has not, or none that is the same. */
tess_status tess_ckpt_latest_local(const tess_ckpt_hosts *hosts, const char *dir, int64_t *step, int64_t *newest);

#endif
