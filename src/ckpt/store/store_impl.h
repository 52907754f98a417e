/* Names and the meta file, shared by saving, loading and scanning. */
#ifndef TESS_CKPT_STORE_IMPL_H
#define TESS_CKPT_STORE_IMPL_H

#include "base/os/os.h"
#include "ckpt/safetensors/safetensors.h"
#include "ckpt/store/store.h"
#include "ckpt/store/write.h"

/* The newest format known. Complete checkpoints are written as 1; 2 came with those of which a host has a part. */
enum { TESS_CKPT_FORMAT = 2, TESS_CKPT_FORMAT_WHOLE = 1 };

#define TESS_CKPT_TEMPORARY ".tmp"

/* The meta file of a complete checkpoint: readable, of a known format, its files there at the stated sizes. */
tess_status tess_ckpt_open_meta(const char *dir, int64_t step, json_t **meta);

/* The highest complete step that is not above `limit`; errors as tess_ckpt_latest. */
tess_status tess_ckpt_latest_until(const char *dir, int64_t limit, int64_t *step);

/* Name inside the files; "model" or "optimizer" says which. */
void tess_ckpt_tensor_name(const tess_ckpt_tensor *tensor, char *name, size_t size);
const char *tess_ckpt_stem(tess_ckpt_kind kind);

/* Part of a tensor's checksum: rows [first, +n) of row_bytes each. */
uint64_t tess_ckpt_checksum(const void *rows, int64_t first, int64_t n, size_t row_bytes);

/* Every tensor's primary rows lie inside the rows held, and those inside the shape. */
tess_status tess_ckpt_check_tensors(const tess_ckpt_tensor *tensors, int n_tensors);

/* Sums over the team, in place. */
tess_status tess_ckpt_sum(tess_mem *mem, tess_team *team, uint64_t *values, int n);

/* This rank's share of every tensor's checksum, and how many rows it stands for. */
void tess_ckpt_local_checksums(const tess_ckpt_tensor *tensors, int n_tensors, uint64_t *checksums, uint64_t *rows);

/* This rank's rows of one tensor that it writes, and where in them. */
const float *tess_ckpt_primary_data(const tess_ckpt_tensor *tensor);
size_t tess_ckpt_row_bytes(const tess_ckpt_tensor *tensor);

/* ---- share.c: folders that hold the rows of one host's ranks
 * ----------------------------------------------------------- */
/* Collective over the host's ranks. own (n) becomes `tensors` with, as primary rows, those that this rank writes into
 * its host's folder; *part what the folder's meta file says of it: {"host", "hosts", "rows": {name: [[begin, end]]}}.
 */
tess_status tess_ckpt_share(tess_mem *mem, const tess_ckpt_hosts *hosts, const tess_ckpt_tensor *tensors, int n,
                            tess_ckpt_tensor *own, json_t **part);
bool tess_ckpt_is_part(const json_t *meta);
/* The ranges [begin, end) of rows that a part holds of a tensor, by its name in the files; NULL: none. */
const json_t *tess_ckpt_rows_of(const json_t *meta, const char *name);
bool tess_ckpt_range_at(const json_t *ranges, size_t i, int64_t *begin, int64_t *end); /* false behind the last */
/* The first of the rows [begin, +n) that a folder does not hold; -1: it has them all. */
int64_t tess_ckpt_first_missing(const json_t *meta, const char *name, int64_t begin, int64_t n);

/* ---- load.c, load_local.c
 * --------------------------------------------------------------------------------------------- */
typedef struct tess_ckpt_load_state {
    tess_mem *mem;
    char folder[TESS_CKPT_PATH];
    const tess_ckpt_tensor *tensors;
    int n;
    json_t *meta;
    tess_st_reader *model, *optimizer;
} tess_ckpt_load_state;

/* Opens the files and finds every tensor: on this rank alone. found (n), NULL: not asked for. */
tess_status tess_ckpt_load_open(tess_ckpt_load_state *l, const char *dir, int64_t step, const tess_st_tensor **found);
tess_status tess_ckpt_load_rows(const tess_ckpt_load_state *l, const tess_st_tensor *const *found);
void tess_ckpt_load_close(tess_ckpt_load_state *l);
/* TESS_E_FORMAT unless the meta file states this checksum of tensor `i`. */
tess_status tess_ckpt_load_compare(const tess_ckpt_load_state *l, int i, uint64_t checksum);

/* ---- tensor.c
 * ---------------------------------------------------------------------------------------------------------- */
/* "F32"; NULL: not one that is stored. */
const char *tess_store_dtype_text(tess_dtype dtype);

#endif
