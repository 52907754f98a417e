/* The plain loops, and which of the two sets this machine runs. */
#include "comm/reduce_loops.h"

#include "device/bf16.h"

static void widen_bf16(const uint16_t *x, float *restrict y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = tess_bf16_to_float(x[i]);
}

static void narrow_bf16(const float *x, uint16_t *restrict y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = tess_float_to_bf16(x[i]);
}

static bool add_f32(const float *a, const float *b, float *y, size_t n, bool accumulate)
{
    uint32_t most = 0;
    for (size_t i = 0; i < n; i++) {
        float sum = a[i] + b[i];
        y[i] = accumulate ? sum + y[i] : sum;
        most = tess_reduce_larger(most, y[i]);
    }
    return tess_reduce_finite(most);
}

static bool add_bf16(const uint16_t *a, const uint16_t *b, float *y, size_t n, bool accumulate)
{
    uint32_t most = 0;
    for (size_t i = 0; i < n; i++) {
        float sum = tess_bf16_to_float(a[i]) + tess_bf16_to_float(b[i]);
        y[i] = accumulate ? sum + y[i] : sum;
        most = tess_reduce_larger(most, y[i]);
    }
    return tess_reduce_finite(most);
}

static bool add4_f32(const float *const *x, float *y, size_t n)
{
    uint32_t most = 0;
    for (size_t i = 0; i < n; i++) {
        y[i] = (x[0][i] + x[1][i]) + (x[2][i] + x[3][i]);
        most = tess_reduce_larger(most, y[i]);
    }
    return tess_reduce_finite(most);
}

static bool add4_bf16(const uint16_t *const *x, float *y, size_t n)
{
    float leaf[4];
    uint32_t most = 0;
    for (size_t i = 0; i < n; i++) {
        for (int r = 0; r < 4; r++)
            leaf[r] = tess_bf16_to_float(x[r][i]);
        y[i] = (leaf[0] + leaf[1]) + (leaf[2] + leaf[3]);
        most = tess_reduce_larger(most, y[i]);
    }
    return tess_reduce_finite(most);
}

static const tess_reduce_loops plain_loops = {widen_bf16, narrow_bf16, add_f32, add_bf16, add4_f32, add4_bf16};

const tess_reduce_loops *tess_reduce_loops_best(void)
{
    bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
    return wide ? &tess_reduce_loops_avx512 : &plain_loops;
}
