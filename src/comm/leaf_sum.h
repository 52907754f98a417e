/* Computes the canonical sum of N leaves when only a few of them are available at a time.
 *
 * The sum works like a binary counter. Level k holds a sum of 2^k leaves if bit k of the number of leaves so far is
 * set, and adding a leaf carries. At the end, the levels are added from the lowest up. The result equals the
 * pairwise tree over the leaves, whatever the sizes of the portions. A portion of n leaves is divided into aligned
 * runs of powers of two. Each run is a whole subtree, and carries from the level of its size on. */
#ifndef TESS_COMM_LEAF_SUM_H
#define TESS_COMM_LEAF_SUM_H

#include "device/stream.h"
#include "tessera/comm.h"

enum {
    TESS_LEAF_LEVELS = 40, /* limits the number of leaves to below 2^39 */
    /* maximum number of steps for a portion: 62 runs of powers of two below 2^31, a carry for each run and each
     * level, and the sum of the levels; a carry clears a level that a run or a carry has set */
    TESS_LEAF_STEPS = 168
};

/* One step: y = the tree over leaves begin .. begin + n of the portion; if n is 0: y = x. If `accumulate`, the old y
 * is added. */
typedef struct tess_leaf_step {
    int begin, n;
    bool accumulate;
    const float *x;
    float *y;
} tess_leaf_step;

typedef struct tess_leaf_counter {
    int64_t n;                      /* number of leaves so far */
    float *level[TESS_LEAF_LEVELS]; /* NULL: the bit of `n` is not set */
    float **memory;                 /* (n_memory) buffers for the sums, borrowed */
    int n_memory;
} tess_leaf_counter;

/* Returns a buffer that holds none of the counter's sums. */
float *tess_leaf_unused(const tess_leaf_counter *counter);
/* Appends the steps that add a portion of n > 0 leaves to steps[*n_steps]. */
void tess_leaf_push(tess_leaf_counter *counter, int n, tess_leaf_step *steps, int *n_steps);
/* Like tess_leaf_push for one leaf that is already in `y`, an unused buffer of the counter. */
void tess_leaf_place(tess_leaf_counter *counter, float *y, tess_leaf_step *steps, int *n_steps);
/* Empties the counter. Once the steps have run, the returned buffer holds the sum of all leaves. NULL: there were no
 * leaves. */
float *tess_leaf_total(tess_leaf_counter *counter, tess_leaf_step *steps, int *n_steps);
/* Returns the number of buffers that a counter needs for n leaves in portions of `portion`. `placed`: the leaves are
 * added by tess_leaf_place. */
int tess_leaf_memory(int64_t n, int portion, bool placed);

/* Runs the steps over elements y[at .. at + n). Leaf i of the portion begins at rows[i].
 * - moved (n_rows): scratch memory; NULL if there is a single step.
 * - streams: writes bypass the caches.
 * - *finite: set to false if a sum over leaves is NaN or infinite; NULL: not checked. */
tess_status tess_leaf_run(tess_stream *stream, const tess_leaf_step *steps, int n_steps, const void *const *rows,
                          const void **moved, int n_rows, tess_dtype dtype, size_t at, size_t n, bool streams,
                          bool *finite);

/* Like tess_reduce_scatter_pieces, with leaf steps: leaf r is the data that rank r shows, and the steps define how
 * leaves are added. Each y is a shard. There must be at least one step. The steps must have the same shape on all
 * ranks, and are borrowed until the work completes. */
tess_status tess_reduce_scatter_leaves(tess_team *team, const void *full, tess_dtype in_dtype,
                                       const tess_leaf_step *steps, int n_steps, const tess_piece *pieces,
                                       size_t n_pieces, tess_work **work);

#endif
