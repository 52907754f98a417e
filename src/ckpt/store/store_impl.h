/* Names and the meta file, shared by saving, loading and scanning. */
#ifndef TESS_CKPT_STORE_IMPL_H
#define TESS_CKPT_STORE_IMPL_H

#include "base/os/os.h"
#include "ckpt/store/store.h"

enum { TESS_CKPT_FORMAT = 1, TESS_CKPT_PATH = 4096 };

#define TESS_CKPT_TEMPORARY ".tmp"

/* "<dir>/step-00000012<suffix>" */
tess_status tess_ckpt_folder(const char *dir, int64_t step, const char *suffix, char path[TESS_CKPT_PATH]);

/* The meta file of a complete checkpoint: readable, of a known format, its files there at the stated sizes. */
tess_status tess_ckpt_open_meta(const char *dir, int64_t step, json_t **meta);

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

#endif
