/* The arithmetic of collectives on the runtime's stream. The kernels `reduce` and `convert` of the device do the
 * work. */
#ifndef TESS_COMM_REDUCE_H
#define TESS_COMM_REDUCE_H

#include "device/stream.h"
#include "tessera/comm.h"

/* Results of at least this many bytes per rank are assumed to leave the caches before they are read, so they are
 * written past the caches. */
enum { REDUCE_STREAM_BYTES = 8 << 20 };

/* Reduces n elements of x[r][i] over r, in the order of tess_reduction, into each of the `n_outs` outs. An average
 * is the sum divided once by n_inputs. An out may be one of the x. `streams`: writes bypass the caches. */
tess_status tess_reduce(tess_stream *s, const void *const *x, int n_inputs, tess_dtype dtype, tess_op op,
                        void *const *outs, int n_outs, size_t n, bool streams);

/* Computes out[i] = tree over r of x[r][i] in float32 (x: F32, BF16 or F16). If `accumulate`, adds the old out[i].
 * *finite is set to false if an out[i] is NaN or infinite; NULL: not checked. */
tess_status tess_reduce_tree_f32(tess_stream *s, const void *const *x, int n_inputs, tess_dtype dtype, float *out,
                                 size_t n, bool accumulate, bool streams, bool *finite);

/* ---- Reductions in parts: each host reduces its own ranks first, then the hosts' results are combined
 *
 * The tree over n inputs splits them at the largest power of two below n, and so on; a partial is the value of one of
 * its subtrees, in a dtype that loses nothing: float32 for sums of floats, int64 for averages of integers. */
typedef struct tess_partial {
    int begin, end; /* range of inputs that it covers, which is a subtree */
    const void *values;
} tess_partial;

/* Returns the number of inputs on the left side of a tree over n > 1 inputs. */
int tess_reduce_half(int n);
tess_dtype tess_reduce_partial_dtype(tess_dtype dtype, tess_op op);
/* Computes out (n, in the partial's dtype) = the tree over x[0 .. n_inputs). */
tess_status tess_reduce_partial(tess_stream *s, const void *const *x, int n_inputs, tess_dtype dtype, tess_op op,
                                void *out, size_t n);
/* Computes out (n, in `dtype`) = the tree over all inputs, from partials that cover them in order. The bits equal
 * those of tess_reduce. If `accumulate` (F32 only), adds the old out, with the bits of tess_reduce_tree_f32. values
 * (n_partials): scratch memory. */
tess_status tess_reduce_finish(tess_stream *s, const tess_partial *partials, const void **values, int n_partials,
                               tess_dtype dtype, tess_op op, void *out, size_t n, bool accumulate);

/* Copies memory. `streams`: writes bypass the caches. */
static inline tess_status tess_copy(tess_stream *s, void *to, const void *from, size_t bytes, bool streams)
{
    return tess_stream_kernels(s)->copy(
        s, &(tess_copy_args){.to = to, .from = from, .bytes = (int64_t)bytes, .streams = streams});
}

/* Converts between F32, BF16 and F16 (round to nearest even; NaN stays NaN), or copies if the dtypes are equal. */
bool tess_convert_possible(tess_dtype from, tess_dtype to);
tess_status tess_convert_values(tess_stream *s, const void *x, tess_dtype from, void *y, tess_dtype to, size_t n);

#endif
