/* A run of elements of a row-major tensor, as boxes. */
#ifndef TESS_CKPT_FORMATS_FLAT_H
#define TESS_CKPT_FORMATS_FLAT_H

#include "ckpt/catalog/catalog.h"

/* The largest box of consecutive elements that begins at element `begin` of the flattened tensor and has at most
 * `count` elements; returns their number. A run consists of at most 2 n_dims - 1 boxes (one for a scalar). */
int64_t tess_flat_box(int n_dims, const int64_t *dim, int64_t begin, int64_t count, tess_box *box);

/* The same within a box of a larger tensor: `first` counts the elements of `whole`. The slice ends with `whole` even if
 * `count` is larger. */
int64_t tess_flat_slice(int n_dims, const tess_box *whole, int64_t first, int64_t count, tess_box *slice);

#endif
