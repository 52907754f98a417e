/* A part: the description of what one writer wrote, or of several merged parts. It is a JSON object {"files",
 * "tensors"} as in a manifest (store_write.h). Parts are stored in files and sent between processes. */
#ifndef TESS_CKPT_STORE_PART_H
#define TESS_CKPT_STORE_PART_H

#include <jansson.h>

#include "ckpt/catalog/catalog.h"

/* A box of a tensor, and where a file contains it. */
typedef struct tess_part_piece {
    const char *file;
    int rank; /* rank that has the box */
    uint64_t offset, stored, bytes, xxh3;
    tess_codec codec;
    tess_box box;
} tess_part_piece;

/* Creates an empty part. *part is a new reference. TESS_E_NOMEM. */
tess_status tess_part_create(json_t **part);
tess_status tess_part_add_file(json_t *part, const char *file, uint64_t bytes);
/* Adds a tensor with a dtype of safetensors and up to TESS_CATALOG_DIMS dimensions, unless it was added before.
 * TESS_E_MISMATCH: it was added with another dtype or shape. */
tess_status tess_part_add_tensor(json_t *part, const char *name, const char *dtype, int n_dims, const int64_t *dim);
/* Adds a piece to a tensor of `n_dims` dimensions that was added before. */
tess_status tess_part_add_piece(json_t *part, const char *name, int n_dims, const tess_part_piece *piece);

/* Adds the content of `more` to `part`. TESS_E_FORMAT: `more` is not a part. TESS_E_MISMATCH: the writers had different
 * models, or wrote the same file. */
tess_status tess_part_merge(json_t *part, const json_t *more);

/* Checks that each element of each tensor is in exactly one piece. TESS_E_INVALID: the message names a tensor with an
 * element in no piece or in two, or with a piece that is not inside it. */
tess_status tess_part_check_complete(const json_t *part);

/* Converts to text; free it. TESS_E_NOMEM. */
tess_status tess_part_format(const json_t *part, char **text);

#endif
