/* Arithmetic of collectives: tree sums, extrema, conversions. Plain loops in cache blocks; the order is fixed, so are
 * the bits. */
#ifndef TESS_COMM_REDUCE_H
#define TESS_COMM_REDUCE_H

#include "tessera/comm.h"

/* Each of the `n_outs` outs gets op over r of x[r][i], n elements of `dtype` each. Sums (and averages: the sum divided
 * once by n_inputs) are the binary tree over r, neighbours first, an odd one out carried up; 16-bit floats in float32
 * and rounded once at the end. Integer sums wrap; integer averages of 32 bits and less are exact before the division,
 * which cuts towards zero. max and min give NaN when there is one. An out may be one of the x. `streams`: past the
 * caches, for results that nobody reads soon (stream.h). */
void tess_reduce(const void *const *x, int n_inputs, tess_dtype dtype, tess_op op, void *const *outs, int n_outs,
                 size_t n, bool streams);

/* out[i] = tree over r of x[r][i] in float32 (x: F32, BF16 or F16), then + out[i] when `accumulate`. True: each out[i]
 * is a finite number. */
bool tess_reduce_tree_f32(const void *const *x, int n_inputs, tess_dtype dtype, float *out, size_t n, bool accumulate,
                          bool streams);

/* ---- Reductions in parts: what the ranks of one host come to, before it meets what those of others come to
 *
 * The tree over n inputs splits them at the largest power of two below n, and so on; a partial is the value of one of
 * its subtrees, kept in a dtype that loses nothing: float32 for sums of floats, int64 for averages of integers. */
typedef struct tess_partial {
    int begin, end; /* inputs that it covers: a subtree */
    const void *values;
} tess_partial;

/* Inputs on the left side of a tree over n > 1. */
int tess_reduce_half(int n);
tess_dtype tess_reduce_partial_dtype(tess_dtype dtype, tess_op op);
/* out (n, of the partial's dtype) = the tree over x[0 .. n_inputs). */
void tess_reduce_partial(const void *const *x, int n_inputs, tess_dtype dtype, tess_op op, void *out, size_t n);
/* out (n, of `dtype`) = the tree over all inputs, from partials that cover them in order: the bits of tess_reduce. */
void tess_reduce_finish(const tess_partial *partials, int n_partials, tess_dtype dtype, tess_op op, void *out,
                        size_t n);
/* out (n) = the tree over all inputs (+ out): the bits of tess_reduce_tree_f32. */
void tess_reduce_finish_f32(const tess_partial *partials, int n_partials, float *out, size_t n, bool accumulate);

/* Any of F32, BF16, F16 to any (nearest even, NaN stays NaN), or a copy when the types are equal. */
bool tess_convert_possible(tess_dtype from, tess_dtype to);
void tess_convert_values(const void *x, tess_dtype from, void *y, tess_dtype to, size_t n);

/* F32, BF16 or F16 into float32 and out of it; x and y do not overlap. */
void tess_load_f32(const void *x, tess_dtype dtype, float *y, size_t n);
void tess_store_f32(const float *x, void *y, tess_dtype dtype, size_t n);

#endif
