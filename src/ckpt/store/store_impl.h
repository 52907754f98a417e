/* Definitions that saving, finding and loading share. */
#ifndef TESS_CKPT_STORE_STORE_IMPL_H
#define TESS_CKPT_STORE_STORE_IMPL_H

#include "base/os/os.h"
#include "ckpt/store/store.h"
#include "ckpt/store/store_write.h"

/* ---- store_names.c: the names in a folder of checkpoints */
#define TESS_CKPT_TEMPORARY ".tmp" /* not finished, or to be removed */
#define TESS_CKPT_RETIRED ".old"   /* replaced by a new one of the same step; counts until that has its name */

typedef enum tess_store_kind { TESS_STORE_FINAL, TESS_STORE_RETIRED, TESS_STORE_TEMPORARY } tess_store_kind;

typedef struct tess_store_name {
    int64_t step;
    tess_store_kind kind;
} tess_store_name;

typedef struct tess_store_names {
    const char *dir;
    tess_store_name *items; /* newest first; within a step, in the order of kinds */
    size_t n, capacity;
} tess_store_names;

/* Lists the checkpoints in `dir`. Free names->items after success. TESS_E_NOT_FOUND: no such folder. */
tess_status tess_store_list(const tess_io *io, const char *dir, tess_store_names *names);
/* Whether item `i` is the one that counts for its step. */
bool tess_store_counts(const tess_store_names *names, size_t i);
tess_status tess_store_path(const char *dir, const tess_store_name *name, char path[TESS_CKPT_PATH]);

/* Cleans up what killed saves left of `step` (TESS_STORE_ANY_STEP: of all steps). A retired checkpoint without a
 * successor gets its name back; everything else is removed. Only a caller that may change the folder may call it.
 * `remove`: the save point of each removal. */
tess_status tess_store_sweep(const tess_io *io, const char *dir, int64_t step, tess_save_point remove);

/* ---- store_prune.c */
/* Lists the checkpoints up to `newest` whose marker, manifest and sizes are right. Free names->items after success.
 * Others are left out: those of another run, damaged ones, and those of another version. */
tess_status tess_store_list_whole(const char *dir, int64_t newest, tess_store_names *names);

/* ---- store_open.c: like tess_store_open_manifest, but a look that fails gives neither TESS_E_FORMAT nor
 * TESS_E_NOT_FOUND */
tess_status tess_store_look(const tess_io *io, const char *folder, int64_t step, json_t **manifest);

/* ---- read_back.c */
/* Whether every byte of the checkpoint in `folder` is as it was written. The pruner receives the result and, if it is
 * false, a note. */
bool tess_store_reads_back(const tess_ckpt_pruner *pruner, const char *folder);

/* ---- store_share.c */
/* Gathers the box of every tensor that each rank of the team holds: *boxes (team size, n), to be freed. Collective. */
tess_status tess_store_gather_boxes(tess_mem *mem, tess_team *team, const tess_ckpt_tensor *tensors, int n,
                                    tess_box **boxes);

/* ---- commit.c */
enum { TESS_STORE_MARKER_BYTES = 256 };
/* Formats the marker; returns its length. */
size_t tess_store_format_marker(int64_t step, size_t bytes, uint64_t xxh3, char text[TESS_STORE_MARKER_BYTES]);

/* ---- tensor.c */
/* Check that the box that `rank` holds is inside the shape. tess_ckpt_check_tensors also checks for every tensor that
 * the box that the rank writes is inside the one it holds. */
tess_status tess_ckpt_check_held(const tess_ckpt_tensor *tensor, int rank);
tess_status tess_ckpt_check_tensors(const tess_ckpt_tensor *tensors, int n_tensors, int rank);

#endif
