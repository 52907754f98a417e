/* Reading checkpoints: as catalogs (ckpt/catalog), and into the tensors of a run. */
#ifndef TESS_CKPT_STORE_READ_H
#define TESS_CKPT_STORE_READ_H

#include "base/os/threads.h"
#include "ckpt/catalog/catalog.h"
#include "ckpt/ckpt_hosts.h"
#include "ckpt/store/tensor.h"

/* The checkpoint in `folder` (".../step-00001000", or whatever it was renamed to) as a catalog: marker, manifest and
 * the files' sizes have been looked at. catalog->meta gets the members of the manifest that are not about tensors or
 * files. TESS_E_NOT_FOUND, TESS_E_FORMAT, TESS_E_UNSUPPORTED as tess_store_open_manifest. */
tess_status tess_store_open(tess_mem *mem, const char *folder, tess_catalog **catalog);
/* The same by its step: TESS_E_FORMAT when it says another one. */
tess_status tess_ckpt_open_step(tess_mem *mem, const char *dir, int64_t step, tess_catalog **catalog);

/* Of a manifest that lies in `folder`, and of which nothing is believed but its format: TESS_E_FORMAT names the tensor
 * and what is wrong. `manifest` is borrowed. */
tess_status tess_store_catalog(tess_mem *mem, const char *folder, const json_t *manifest, tess_catalog **catalog);

/* Whether what a writer wrote into `folder` has the checksums that its part says. */
tess_status tess_store_verify_part(tess_mem *mem, const char *folder, const json_t *part);

typedef struct tess_ckpt_load_options {
    tess_threads *threads;        /* read at the same time; NULL: this one alone */
    const tess_ckpt_hosts *hosts; /* the ranks of a host share the verification of pieces; NULL: each verifies what it
                                     reads */
    bool whole;                   /* TESS_E_INVALID, too, when it holds a tensor that is not among those asked for */
} tess_ckpt_load_options;

/* Fills every tensor's `data` with its rows. Collective; any world size. Every rank reads what it needs alone; every
 * piece that is read is verified. `team` NULL: this process alone; `options` NULL: all zero. *meta (may be NULL)
 * becomes a new reference to the caller's object, NULL when there was none. One answer for all ranks: TESS_E_NOT_FOUND:
 * no such checkpoint; TESS_E_FORMAT: damaged (names file, tensor, the rank that wrote it, bytes); TESS_E_INVALID: of
 * another model, or one host's part without rows that are needed; TESS_E_UNSUPPORTED: of a newer format. What is in
 * `data` after a failure is undefined. */
tess_status tess_ckpt_load(tess_mem *mem, tess_team *team, const char *dir, int64_t step,
                           const tess_ckpt_tensor *tensors, int n_tensors, const tess_ckpt_load_options *options,
                           json_t **meta);

/* The same where `dir` is another folder on every host. Collective over hosts->all. TESS_E_INVALID: a rank needs rows
 * that its host's folder does not hold, as the hosts or their ranks are not those of the save: the message names the
 * tensor, a row, and the host that has it. A folder that holds everything serves any ranks. */
tess_status tess_ckpt_load_local(tess_mem *mem, const tess_ckpt_hosts *hosts, const char *dir, int64_t step,
                                 const tess_ckpt_tensor *tensors, int n_tensors, const tess_ckpt_load_options *options,
                                 json_t **meta);

#endif
