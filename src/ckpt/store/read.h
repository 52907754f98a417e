/* Reads checkpoints as catalogs (ckpt/catalog), and into the tensors of a run. */
#ifndef TESS_CKPT_STORE_READ_H
#define TESS_CKPT_STORE_READ_H

#include "base/os/threads.h"
#include "ckpt/catalog/catalog.h"
#include "ckpt/ckpt_hosts.h"
#include "ckpt/store/tensor.h"

/* Opens the checkpoint in `folder` (".../step-00001000", or renamed) as a catalog, after checking marker, manifest and
 * file sizes. catalog->meta gets the manifest's members except tensors and files. TESS_E_NOT_FOUND, TESS_E_FORMAT,
 * TESS_E_UNSUPPORTED: as for tess_store_open_manifest. */
tess_status tess_store_open(tess_mem *mem, const char *folder, tess_catalog **catalog);
/* Opens the checkpoint of a step in `dir`. TESS_E_FORMAT: the checkpoint states another step. */
tess_status tess_ckpt_open_step(tess_mem *mem, const char *dir, int64_t step, tess_catalog **catalog);
/* Opens the checkpoint of a step, and verifies every byte. */
tess_status tess_ckpt_verify_step(tess_mem *mem, const char *dir, int64_t step);

/* Builds the catalog of a manifest in `folder`. Only the manifest's format number is trusted. `manifest` is borrowed.
 * TESS_E_FORMAT: the message names the tensor and what is wrong. */
tess_status tess_store_catalog(tess_mem *mem, const char *folder, const json_t *manifest, tess_catalog **catalog);

/* Checks that the files of a writer in `folder` have the checksums that its part states. */
tess_status tess_store_verify_part(tess_mem *mem, const char *folder, const json_t *part);

typedef struct tess_ckpt_load_options {
    tess_threads *threads;        /* threads that read in parallel; NULL: only the calling thread */
    const tess_ckpt_hosts *hosts; /* the ranks of a host share verification; NULL: each verifies what it reads */
    bool whole;                   /* TESS_E_INVALID if the checkpoint has a tensor that was not requested */
    bool own_folders;             /* `dir` is a separate folder on every host of `hosts` */
} tess_ckpt_load_options;

/* Returns the request that reads the box of a tensor, in its dtype, from a catalog's tensor with the same shape. For an
 * empty box it reads nothing. */
tess_catalog_request tess_store_request(const tess_ckpt_tensor *tensor, const tess_catalog_tensor *found);

/* Fills every tensor's `data` with its box. Collective, with any world size. Every rank reads what it needs itself, and
 * every piece read is verified.
 * `team` NULL: this process alone. `options` NULL: all zero. *meta (may be NULL) becomes a new reference to the object
 * that the save was given, or NULL if there was none.
 * All ranks return the same status; after a failure the content of `data` is undefined:
 *   TESS_E_NOT_FOUND    no such checkpoint
 *   TESS_E_FORMAT       damaged; the message names file, tensor, the rank that wrote it, and bytes
 *   TESS_E_INVALID      the checkpoint belongs to another model, or is one host's part without rows that are needed.
 *     With own_folders: a host's folder lacks rows that its ranks need, because hosts or ranks differ from those of the
 *     save (the message names the tensor, a row, and the host that has it); a folder with all rows fits any ranks
 *   TESS_E_UNSUPPORTED  the checkpoint has an older or newer format */
tess_status tess_ckpt_load(tess_mem *mem, tess_team *team, const char *dir, int64_t step,
                           const tess_ckpt_tensor *tensors, int n_tensors, const tess_ckpt_load_options *options,
                           json_t **meta);

#endif
