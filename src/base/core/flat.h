/* A run of elements of a row-major tensor, as boxes. */
#ifndef TESS_BASE_CORE_FLAT_H
#define TESS_BASE_CORE_FLAT_H

#include "tessera/types.h"

/* The largest box of consecutive elements that begins at element `begin` of the flattened tensor and has at most
 * `count` elements; returns their number. A run consists of at most 2 n_dims - 1 boxes (one for a scalar). */
int64_t tess_flat_box(int n_dims, const int64_t *dim, int64_t begin, int64_t count, tess_box *box);

/* The same within a box of a larger tensor: `first` counts the elements of `whole`. The slice ends with `whole` even if
 * `count` is larger. */
int64_t tess_flat_slice(int n_dims, const tess_box *whole, int64_t first, int64_t count, tess_box *slice);

/* True if a box of sizes `inner` lies in one of sizes `outer`, row by row, without a gap. Rows of dimension 0 do, so
 * that a cut along dimension 0 alone needs no copy: the fast path of saving and loading. */
bool tess_flat_is_run(int n_dims, const int64_t *outer, const int64_t *inner);

/* How many elements of a box of sizes `inner` lie one after the other in one of sizes `outer`, which contains it: the
 * box consists of runs of that length. */
int64_t tess_flat_run(int n_dims, const int64_t *outer, const int64_t *inner);

/* The offset of the first element of `part` among those of `whole`, which contains it. */
int64_t tess_flat_offset(int n_dims, const tess_box *whole, const tess_box *part);

/* Copies `count` consecutive elements of `part`, from its element `first` on, out of `data`, which has all of `whole`.
 */
void tess_flat_copy(int n_dims, size_t element_bytes, const tess_box *whole, const void *data, const tess_box *part,
                    int64_t first, int64_t count, void *to);

#endif
