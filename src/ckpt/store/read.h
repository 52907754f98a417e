/* Reads checkpoints as catalogs (ckpt/catalog), and into the tensors of a run. */
#ifndef TESS_CKPT_STORE_READ_H
#define TESS_CKPT_STORE_READ_H

#include "base/os/threads.h"
#include "ckpt/catalog/catalog.h"
#include "ckpt/ckpt_hosts.h"
#include "ckpt/store/tensor.h"

/* Opens the checkpoint in `folder` (".../step-00001000", or renamed) as a catalog, after checking marker, manifest and
 * file sizes. catalog->meta gets the manifest's members other than tensors and files. TESS_E_NOT_FOUND, TESS_E_FORMAT,
 * TESS_E_UNSUPPORTED as tess_store_open_manifest. */
tess_status tess_store_open(tess_mem *mem, const char *folder, tess_catalog **catalog);
/* The same by step. TESS_E_FORMAT: the checkpoint says another step. */
tess_status tess_ckpt_open_step(tess_mem *mem, const char *dir, int64_t step, tess_catalog **catalog);
/* Opens it and verifies every byte. */
tess_status tess_ckpt_verify_step(tess_mem *mem, const char *dir, int64_t step);

/* Builds the catalog of a manifest in `folder`, of which only the format is trusted. TESS_E_FORMAT names the tensor and
 * what is wrong. `manifest` is borrowed. */
tess_status tess_store_catalog(tess_mem *mem, const char *folder, const json_t *manifest, tess_catalog **catalog);

/* Whether the files of a writer in `folder` have the checksums of its part. */
tess_status tess_store_verify_part(tess_mem *mem, const char *folder, const json_t *part);

typedef struct tess_ckpt_load_options {
    tess_threads *threads;        /* read in parallel; NULL: this thread alone */
    const tess_ckpt_hosts *hosts; /* ranks of a host share verification; NULL: each verifies what it reads */
    bool whole;                   /* also TESS_E_INVALID if it holds a tensor that was not asked for */
    bool own_folders;             /* `dir` is another folder on every host of `hosts` */
} tess_ckpt_load_options;

/* Reads the box of a tensor, in its dtype, from a tensor of a catalog with the same shape. An empty box reads nothing.
 */
tess_catalog_request tess_store_request(const tess_ckpt_tensor *tensor, const tess_catalog_tensor *found);

/* Fills every tensor's `data` with its box. Collective, with any world size. Every rank reads what it needs itself;
 * every piece read is verified.
 * `team` NULL: this process alone; `options` NULL: all zero. *meta (may be NULL) becomes a new reference to the
 * caller's object, NULL if there was none.
 * All ranks return the same status; after a failure `data` is undefined:
 *   TESS_E_NOT_FOUND    no such checkpoint
 *   TESS_E_FORMAT       damaged; the message names file, tensor, the rank that wrote it, and bytes
 *   TESS_E_INVALID      of another model, or one host's part without rows that are needed; with own_folders a host's
 *                       folder lacks rows that its ranks need, because hosts or ranks are not those of the save (the
 *                       message names the tensor, a row, and the host that has it). One with all rows serves any ranks
 *   TESS_E_UNSUPPORTED  of an older or newer format */
tess_status tess_ckpt_load(tess_mem *mem, tess_team *team, const char *dir, int64_t step,
                           const tess_ckpt_tensor *tensors, int n_tensors, const tess_ckpt_load_options *options,
                           json_t **meta);

#endif
