/* The common part of all element-wise kernels and row reductions, on each instruction set: the dtypes that they
 * support, the grain of their loops, and the order of their sums.
 *
 * A sum over a row (norms, softmax) has TESS_ROW_LANES partial sums, which start from 0. Element i is added to sum i %
 * 64, ascending. Then the sums are folded in halves: i + (i + 32), then 16, 8, 4, 2, 1. */
#ifndef TESS_DEVICE_ELEMENTWISE_H
#define TESS_DEVICE_ELEMENTWISE_H

#include <float.h>

#include "device/kernels.h"
#include "device/shared_code.h"

enum { TESS_ROW_LANES = 64 };

/* A softmax computes exponentials relative to the largest of a chunk of this many elements, and adds them in float. The
 * chunks, each times exp(its largest - largest of all), are added in double, because V may be 256k. */
enum { TESS_SOFTMAX_CHUNK = 2048 };

/* Returns a factor of arguments, where 0 means 1. */
TESS_SHARED float tess_factor_of(float factor)
{
    return factor != 0 ? factor : 1.0f;
}

/* Whether cross entropy transforms its logits. */
TESS_SHARED bool tess_bends_logits(const tess_cross_entropy *rows)
{
    return tess_factor_of(rows->factor) != 1 || rows->soft_cap != 0;
}

static inline tess_status tess_check_dtype(const char *kernel, tess_dtype dtype)
{
    TESS_CHECK(dtype == TESS_F32 || dtype == TESS_BF16, TESS_E_UNSUPPORTED,
               "%s of dtype %s: only float32 and bfloat16 have kernels; convert first", kernel, tess_dtype_name(dtype));
    return TESS_OK;
}

static inline tess_status tess_check_cross_entropy(const tess_cross_entropy *rows)
{
    TESS_CHECK(rows->inv_temperature > 0 && rows->inv_temperature <= FLT_MAX, TESS_E_INVALID,
               "cross_entropy: 1 / temperature is %g; it must be finite and above 0", (double)rows->inv_temperature);
    TESS_CHECK(rows->factor >= 0 && rows->factor <= FLT_MAX && rows->soft_cap >= 0 && rows->soft_cap <= FLT_MAX,
               TESS_E_INVALID,
               "cross_entropy: a factor of %g and a soft cap of %g; they must be finite and not below 0",
               (double)rows->factor, (double)rows->soft_cap);
    return tess_check_dtype("cross_entropy", rows->dtype);
}

static inline tess_status tess_check_convert(tess_dtype from, tess_dtype to)
{
    TESS_CHECK(from <= TESS_F16 && to <= TESS_F16, TESS_E_UNSUPPORTED,
               "convert from %s to %s: only float32, bfloat16 and float16 convert", tess_dtype_name(from),
               tess_dtype_name(to));
    return TESS_OK;
}

static inline bool tess_reduces_floats(const tess_reduction *r)
{
    return r->dtype <= TESS_F16;
}

static inline tess_status tess_check_reduction(const tess_reduction *r)
{
    bool sums = r->op == TESS_SUM || r->op == TESS_AVG;
    bool fits = tess_reduces_floats(r) ? sums && r->y_dtype == TESS_F32 : r->y_dtype > TESS_F16;
    TESS_CHECK(r->y_dtype == r->dtype || fits, TESS_E_UNSUPPORTED, "reduce %s to %s: only sums of floats widen",
               tess_dtype_name(r->dtype), tess_dtype_name(r->y_dtype));
    return TESS_OK;
}

static inline tess_status tess_check_convert_runs(tess_dtype from, tess_dtype to)
{
    return from == to ? TESS_OK : tess_check_convert(from, to);
}

enum { TESS_REDUCE_RUNS_INPUTS = 512 };

static inline tess_status tess_check_reduce_runs(const tess_reduction *r)
{
    TESS_CHECK(r->n_outputs == 1 && r->n_inputs <= TESS_REDUCE_RUNS_INPUTS, TESS_E_UNSUPPORTED,
               "reduce_runs: %d inputs to %d outputs: it takes %d and 1", r->n_inputs, r->n_outputs,
               (int)TESS_REDUCE_RUNS_INPUTS);
    TESS_CHECK(tess_reduces_floats(r) && (r->op == TESS_SUM || r->op == TESS_AVG), TESS_E_UNSUPPORTED,
               "reduce_runs of %s: it sums floats", tess_dtype_name(r->dtype));
    return tess_check_reduction(r);
}

/* Returns the number of rows (or elements, for rows of 1) whose work, some 10 us, is worth waking a thread for. */
static inline int64_t tess_loop_grain(int64_t elements_per_row)
{
    int64_t grain = 16384 / (elements_per_row + 1);
    return grain < 1 ? 1 : grain;
}

#endif
