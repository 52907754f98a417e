/* Converts between runs of consecutive elements of a row-major tensor and boxes. Saving and loading of shards depends
 * on it. */
#ifndef TESS_BASE_CORE_FLAT_H
#define TESS_BASE_CORE_FLAT_H

#include "tessera/types.h"

/* Finds the largest box of consecutive elements that begins at element `begin` of the flattened tensor and has at most
 * `count` elements. Returns its number of elements. A run consists of at most 2 n_dims - 1 boxes (one for a scalar). */
int64_t tess_flat_box(int n_dims, const int64_t *dim, int64_t begin, int64_t count, tess_box *box);

/* Like tess_flat_box, within the box `whole` of a larger tensor: `first` counts the elements of `whole`. The slice ends
 * with `whole` even if `count` is larger. */
int64_t tess_flat_slice(int n_dims, const tess_box *whole, int64_t first, int64_t count, tess_box *slice);

/* Whether a box of sizes `inner` is one contiguous run of elements in a row-major buffer of sizes `outer`. Boxes of
 * whole rows of dimension 0 are, so shards cut along dimension 0 need no copy: the fast path of saving and loading. */
bool tess_flat_is_run(int n_dims, const int64_t *outer, const int64_t *inner);

/* Returns the length of the contiguous runs of which a box of sizes `inner` consists in a row-major buffer of sizes
 * `outer` that contains it. */
int64_t tess_flat_run(int n_dims, const int64_t *outer, const int64_t *inner);

/* Returns the offset of the first element of `part` among the elements of `whole`, which contains it. */
int64_t tess_flat_offset(int n_dims, const tess_box *whole, const tess_box *part);

/* Returns the length of the longest run of elements, `most` at most, that are contiguous both in `part` from its
 * element `first` on and in the whole tensor. Writes the run's offset in the tensor to *at. */
int64_t tess_flat_run_at(int n_dims, const int64_t *dim, const tess_box *part, int64_t first, int64_t most,
                         int64_t *at);

/* Copies `count` consecutive elements of `part`, starting at its element `first`, from `data` to `to`. `data` holds all
 * elements of `whole`. */
void tess_flat_copy(int n_dims, size_t element_bytes, const tess_box *whole, const void *data, const tess_box *part,
                    int64_t first, int64_t count, void *to);

#endif
