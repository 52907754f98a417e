/* Definitions that the files of this folder share. */
#ifndef TESS_CKPT_SAFETENSORS_SAFETENSORS_IMPL_H
#define TESS_CKPT_SAFETENSORS_SAFETENSORS_IMPL_H

#include "base/mem/scoped.h"
#include "base/os/os.h"
#include "base/text/text.h"
#include "ckpt/catalog/catalog.h"
#include "ckpt/safetensors/safetensors.h"

enum { TESS_ST_MAX_HEADER = 100000000, TESS_ST_MAX_DIMS = 8 };

/* ---- dtype.c */
int tess_st_dtype_number(const char *text); /* index in the reference's enum, in ascending order; -1: no such dtype */
int tess_st_dtype_bits(const char *text);   /* bits per element; 0: no such dtype */

/* ---- header.c: returns the position of the first byte that is not UTF-8; `size`: all bytes are UTF-8 ---- */
size_t tess_st_first_invalid(const uint8_t *text, size_t size);

/* ---- safetensors_layout.c */
/* Plans a folder. `tensors` give name, dtype_text, n_dims and dim. `description` (may be NULL) is UTF-8, borrowed.
 * TESS_E_INVALID: a name is a duplicate, empty, not UTF-8 or "__metadata__", a dtype is unknown, or a header exceeds
 * the format's limit. */
tess_status tess_st_plan_create(tess_mem *mem, const char *stem, const tess_st_tensor *tensors, int n_tensors,
                                size_t shard_bytes, const char *description, tess_st_plan **plan);
/* Appends the header of a file, with the 8 bytes of its length and its padding. */
tess_status tess_st_plan_header(const tess_st_plan *plan, const tess_st_tensor *tensors, int file, tess_buffer *out);
/* Appends the index of a sharded model. */
tess_status tess_st_plan_index(tess_mem *mem, const tess_st_plan *plan, const tess_st_tensor *tensors,
                               tess_buffer *out);

/* ---- mxfp4.c: joins the tensors X_blocks (E, R, n, 16) and X_scales (E, R, n) of bytes to one tensor X, (E, 32 n, R)
 * of bfloat16, as transformers does with the experts of gpt-oss. They may be in different files. */
typedef struct tess_st_half {
    tess_st_tensor tensor;
    int file;
    bool joined;
} tess_st_half;

typedef struct tess_st_halves {
    tess_scope scope; /* owns the list and its names */
    tess_st_half *list;
    size_t n, room;
} tess_st_halves;

/* Whether the tensor's name, dtype and number of dimensions are those of blocks or scales. */
bool tess_st_is_half(const tess_st_tensor *tensor);
tess_status tess_st_add_half(tess_st_halves *halves, const tess_st_tensor *tensor, int file);
/* Adds the joined tensors to the catalog. Scales without blocks are not joined. TESS_E_FORMAT: blocks without scales,
 * or shapes that do not match. */
tess_status tess_st_join_halves(tess_st_halves *halves, tess_catalog *catalog);
/* Finds a name, once the halves are joined. NULL: there is none. */
tess_st_half *tess_st_find_half(const tess_st_halves *halves, const char *name);

#endif
