/* Element types, reductions and shapes. */
#ifndef TESSERA_TYPES_H
#define TESSERA_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tessera/export.h"
#include "tessera/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers are stable: they are part of fingerprints and files. */
typedef enum tess_dtype {
    TESS_F32 = 0,
    TESS_BF16 = 1,
    TESS_F16 = 2,
    TESS_I32 = 3,
    TESS_I64 = 4,
    TESS_U8 = 5,
    TESS_DTYPE_COUNT
} tess_dtype;

TESS_API size_t tess_dtype_size(tess_dtype dtype);      /* bytes of one element */
TESS_API const char *tess_dtype_name(tess_dtype dtype); /* "float32", "bfloat16", ..., as torch spells them */

/* Parses "bfloat16"/"bf16", "float32"/"fp32", ... TESS_E_INVALID: the message names the choices. */
TESS_API tess_status tess_dtype_parse(const char *text, tess_dtype *dtype);

/* The operation of a reduction on the values of all ranks. */
typedef enum tess_op { TESS_SUM, TESS_MAX, TESS_MIN, TESS_AVG } tess_op;

enum { TESS_MAX_DIMS = 8 };

/* The extents of a row-major tensor; a scalar has n_dims 0. */
typedef struct tess_shape {
    int n_dims;
    int64_t dim[TESS_MAX_DIMS];
} tess_shape;

TESS_API int64_t tess_shape_count(const tess_shape *shape);     /* total number of elements */
TESS_API int64_t tess_shape_rows(const tess_shape *shape);      /* number of rows, dim[0]; 1 for a scalar */
TESS_API int64_t tess_shape_row_count(const tess_shape *shape); /* number of elements in one row of dimension 0 */
TESS_API bool tess_shape_equal(const tess_shape *a, const tess_shape *b);
/* Returns a scalar's shape as one row, [1], so that ranks may hold none of it; returns any other shape unchanged.
 * Boxes of shards and of checkpoints' tensors refer to this shape. */
TESS_API tess_shape tess_shape_atleast_1d(const tess_shape *shape);

/* Write a shape as "[4096, 11008]". Return text. */
TESS_API const char *tess_shape_format(const tess_shape *shape, char *text, size_t size);
TESS_API const char *tess_dims_format(int n_dims, const int64_t *dim, char *text, size_t size);

/* The elements [begin, begin + size) in each dimension of a tensor. Entries of dimensions `n_dims` and above are
 * ignored. */
typedef struct tess_box {
    int64_t begin[TESS_MAX_DIMS], size[TESS_MAX_DIMS];
} tess_box;

TESS_API tess_box tess_box_whole(const tess_shape *shape);
TESS_API int64_t tess_box_count(int n_dims, const tess_box *box); /* total number of elements */
TESS_API bool tess_box_equal(int n_dims, const tess_box *a, const tess_box *b);
/* False also if a size is negative */
TESS_API bool tess_box_contains(int n_dims, const tess_box *outer, const tess_box *inner);
/* Whether two boxes have elements in common. *common (may be NULL) receives their intersection. */
TESS_API bool tess_box_meet(int n_dims, const tess_box *a, const tess_box *b, tess_box *common);
/* Writes a box as "[0, 3) x [8, 16)". Returns text. */
TESS_API const char *tess_box_format(int n_dims, const tess_box *box, char *text, size_t size);
/* Copies the elements of `common`, which both boxes must contain. `from` and `to` hold the elements of their boxes
 * in row-major order. */
TESS_API void tess_box_copy(int n_dims, size_t element_bytes, const tess_box *common, const tess_box *from_box,
                            const void *from, const tess_box *to_box, void *to);

/* Returns which of `n_rows` rows part `index` of `n_parts` owns. Chunks have ceil(n_rows / n_parts) rows, as
 * torch.chunk cuts them: the last parts may be smaller or empty. */
TESS_API void tess_shard_rows(int64_t n_rows, int n_parts, int index, int64_t *begin, int64_t *count);

#ifdef __cplusplus
}
#endif

#endif
