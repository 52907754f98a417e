/* The canonical sum of N leaves, a few of them at a time.
 *
 * The sum works as a binary counter does: level k holds a sum of 2^k leaves wherever bit k of the number of leaves so
 * far is set, and adding a leaf carries. In the end the levels are added from the lowest up. The result is the pairwise
 * tree over the leaves, in whatever portions they come: a portion of n leaves is cut into aligned runs of powers of
 * two, each of which is a whole subtree and carries on from the level of its size. */
#ifndef TESS_COMM_LEAF_SUM_H
#define TESS_COMM_LEAF_SUM_H

#include "device/stream.h"
#include "tessera/comm.h"

enum {
    TESS_LEAF_LEVELS = 40, /* leaves < 2^39 */
    TESS_LEAF_STEPS = 168 /* most steps of a portion: 62 runs of powers of two below 2^31, a carry for each run and each
                           * level, and the sum of the levels; a carry clears a level that a run or a carry has set */
};

/* y = the tree over leaves begin .. begin + n of the portion; with n = 0: y = x. Plus the old y when `accumulate`. */
typedef struct tess_leaf_step {
    int begin, n;
    bool accumulate;
    const float *x;
    float *y;
} tess_leaf_step;

typedef struct tess_leaf_counter {
    int64_t n;                      /* leaves so far */
    float *level[TESS_LEAF_LEVELS]; /* NULL: the bit of `n` is not set */
    float **memory;                 /* (n_memory) what the sums are kept in, borrowed */
    int n_memory;
} tess_leaf_counter;

/* Memory that holds none of the counter's sums. */
float *tess_leaf_unused(const tess_leaf_counter *counter);
/* Appends the steps that add a portion of n > 0 leaves to steps[*n_steps]. */
void tess_leaf_push(tess_leaf_counter *counter, int n, tess_leaf_step *steps, int *n_steps);
/* The same for one leaf that is already in `y`, unused memory of the counter. */
void tess_leaf_place(tess_leaf_counter *counter, float *y, tess_leaf_step *steps, int *n_steps);
/* Empties the counter: the sum of all leaves is in what this returns, once the steps have run. NULL: of no leaf. */
float *tess_leaf_total(tess_leaf_counter *counter, tess_leaf_step *steps, int *n_steps);
/* The memory that a counter needs for n leaves in portions of `portion`; `placed`: they come by tess_leaf_place. */
int tess_leaf_memory(int64_t n, int portion, bool placed);

/* Runs the steps over elements y[at .. at + n); leaf i of the portion begins at rows[i]. moved (n_rows): scratch, NULL
 * if there is one step. streams: past the caches.
 * *finite turns false when a sum over leaves is NaN or infinite; NULL: not looked at. */
tess_status tess_leaf_run(tess_stream *stream, const tess_leaf_step *steps, int n_steps, const void *const *rows,
                          const void **moved, int n_rows, tess_dtype dtype, size_t at, size_t n, bool streams,
                          bool *finite);

/* tess_reduce_scatter_pieces in which leaf r is what rank r shows and the steps say what becomes of the leaves; each y
 * is a shard. The steps have the same shape on all ranks and are borrowed until the work completes; there is one at
 * least. */
tess_status tess_reduce_scatter_leaves(tess_team *team, const void *full, tess_dtype in_dtype,
                                       const tess_leaf_step *steps, int n_steps, const tess_piece *pieces,
                                       size_t n_pieces, tess_work **work);

#endif
