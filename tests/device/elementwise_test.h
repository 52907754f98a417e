/* Shared by the tests of element-wise kernels: every table of this machine on several threads, arrays of either dtype
 * in blocks of their exact size (so that sanitizers see an overrun), and comparison with float64. */
#ifndef TESS_TESTS_DEVICE_ELEMENTWISE_TEST_H
#define TESS_TESTS_DEVICE_ELEMENTWISE_TEST_H

#include <math.h>
#include <stdlib.h>

#include "base/core/rng.h"
#include "device/bf16.h"
#include "device/cuda_shim/cuda_shim_stream.h"
#include "device/stream.h"
#include "support/test.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const tess_dtype both_dtypes[] = {TESS_F32, TESS_BF16};

typedef struct variant {
    const char *level;
    int threads;
} variant;

/* The first is the definition; all others must give its bits. "cuda": rows for GPUs, run on the host. */
#ifdef TESS_TEST_PTX /* The kernels run on the interpreter (device/ptx). Other tests have the tables of the CPU. */
static const variant variants[] = {{"ref", 1}, {"cuda", 1}};
#else
static const variant variants[] = {{"ref", 1},    {"avx2", 1}, {"avx2", 3}, {"avx512", 1},
                                   {"avx512", 2}, {"amx", 3},  {"cuda", 1}};
#endif

/* NULL when the machine cannot run it. */
static inline tess_stream *open_variant(size_t index)
{
    tess_stream *s = NULL;
    if (strcmp(variants[index].level, "cuda") == 0) {
        EXPECT_OK(cuda_shim_stream(test_mem(), false, &s));
        return s;
    }
    tess_status status = tess_stream_create(test_mem(), variants[index].threads, variants[index].level, &s);
    if (status != TESS_E_UNSUPPORTED)
        EXPECT_OK(status);
    return s;
}

static inline void *new_array(int64_t n, size_t size)
{
    void *p = malloc(n > 0 ? (size_t)n * size : 1);
    EXPECT(p != NULL);
    return p;
}

static inline void put_value(void *x, int64_t i, double value, tess_dtype dtype)
{
    if (dtype == TESS_F32)
        ((float *)x)[i] = (float)value;
    else
        ((uint16_t *)x)[i] = tess_float_to_bf16((float)value);
}

static inline double value_at(const void *x, int64_t i, tess_dtype dtype)
{
    return dtype == TESS_F32 ? ((const float *)x)[i] : tess_bf16_to_float(((const uint16_t *)x)[i]);
}

static inline const void *row_at(const void *x, int64_t i, tess_dtype dtype)
{
    return (const char *)x + (size_t)i * tess_dtype_size(dtype);
}

/* Normal numbers around `mean`. */
static inline void *random_array(uint64_t stream, int64_t n, double mean, double std, tess_dtype dtype)
{
    void *x = new_array(n, tess_dtype_size(dtype));
    for (int64_t i = 0; i < n; i++)
        put_value(x, i, mean + std * tess_rng_normal(7, TESS_RNG_TEST, stream, (uint64_t)i), dtype);
    return x;
}

/* Filled with a pattern that no result has, so that an element that is not written shows. */
static inline void *blank_array(int64_t n, tess_dtype dtype)
{
    void *x = new_array(n, tess_dtype_size(dtype));
    for (int64_t i = 0; i < n; i++)
        put_value(x, i, -12345.0, dtype);
    return x;
}

static inline void *copy_array(const void *x, int64_t n, tess_dtype dtype)
{
    void *y = new_array(n, tess_dtype_size(dtype));
    memcpy(y, x, (size_t)n * tess_dtype_size(dtype));
    return y;
}

/* One rounding to the dtype and a few of float32, relative to `scale`. */
static inline double allowed(double scale, tess_dtype dtype)
{
    return fabs(scale) * (dtype == TESS_F32 ? 4e-6 : 1.0 / 240) + 1e-6;
}

static inline void expect_near(const char *what, int64_t i, double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        test_fail(__FILE__, __LINE__, "%s[%lld] is %.9g, expected %.9g within %.3g", what, (long long)i, got, want,
                  tolerance);
}

static inline void expect_bits(const char *what, size_t index, const void *got, const void *want, int64_t n,
                               tess_dtype dtype)
{
    char text[128];
    snprintf(text, sizeof(text), "%s (%s, %d threads, %lld elements)", what, variants[index].level,
             variants[index].threads, (long long)n);
    test_expect_same(__FILE__, __LINE__, text, got, want, (size_t)n, tess_dtype_size(dtype));
}

#endif
