/* Rows of a tensor as a box. */
#ifndef TESS_TESTS_CKPT_ROWS_H
#define TESS_TESTS_CKPT_ROWS_H

#include "ckpt/catalog/catalog.h"

static inline tess_box rows_of(const tess_shape *shape, int64_t begin, int64_t n)
{
    const tess_shape atleast_1d = tess_shape_atleast_1d(shape);
    tess_box box = tess_box_whole(&atleast_1d);
    box.begin[0] = begin;
    box.size[0] = n;
    return box;
}

static inline tess_box tensor_rows(const tess_catalog_tensor *tensor, int64_t begin, int64_t n)
{
    tess_box box = tess_catalog_whole(tensor);
    box.begin[0] = begin;
    box.size[0] = n;
    return box;
}

/* The rows of part `index` of `n_parts`. */
static inline tess_box chunk_of(const tess_shape *shape, int n_parts, int index)
{
    int64_t begin, n;
    tess_shard_rows(tess_shape_rows(shape), n_parts, index, &begin, &n);
    return rows_of(shape, begin, n);
}

#endif
