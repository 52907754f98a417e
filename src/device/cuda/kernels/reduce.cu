/* Reduces the same element of many inputs to one. Each thread computes one element. */
#include <math.h>

#include "device/cuda/cuda_rows.h"
#include "device/cuda/cuda_types.h"

enum { THREADS = 256, MAX_INPUTS = 256, MAX_OUTPUTS = 64, LEVELS = 9 }; /* LEVELS is enough for 2^(LEVELS - 1) inputs */

/* The arguments of a launch, which are copied with it. */
typedef struct reduce_call {
    tess_reduction of; /* its arrays x and y are not read */
    const void *x[MAX_INPUTS];
    void *y[MAX_OUTPUTS];
} reduce_call;

static __device__ float sum_float(const reduce_call &r, int64_t i)
{
    auto input = [&](int64_t k) { return tess_get_float(r.x[k], r.of.dtype, (size_t)i); };
    float sum = r.of.n_inputs > 0 ? cuda_tree<LEVELS>(r.of.n_inputs, input) : 0.0f;
    if (r.of.divisor != 1)
        sum /= (float)r.of.divisor;
    return r.of.accumulate ? sum + ((const float *)r.y[0])[i] : sum;
}

static __device__ float extreme_float(const reduce_call &r, int64_t i)
{
    float best = tess_get_float(r.x[0], r.of.dtype, (size_t)i);
    for (int k = 1; k < r.of.n_inputs; k++) {
        float next = tess_get_float(r.x[k], r.of.dtype, (size_t)i);
        bool stays = r.of.op == TESS_MAX ? best > next : best < next;
        best = stays || isnan(best) ? best : next;
    }
    return best;
}

static __global__ void reduce_floats_kernel(reduce_call r)
{
    bool is_sum = r.of.op == TESS_SUM || r.of.op == TESS_AVG;
    TESS_CUDA_EACH(i, r.of.n)
    {
        float value = is_sum ? sum_float(r, i) : extreme_float(r, i);
        for (int k = 0; k < r.of.n_outputs; k++)
            tess_put_float(r.y[k], r.of.y_dtype, (size_t)i, value);
        if (is_sum && r.of.finite != NULL && !isfinite(value))
            *r.of.finite = false; /* all threads that write store the same value */
    }
}

static __device__ int64_t get_integer(const void *x, tess_dtype dtype, int64_t i)
{
    return dtype == TESS_I64   ? ((const int64_t *)x)[i]
           : dtype == TESS_I32 ? ((const int32_t *)x)[i]
                               : ((const uint8_t *)x)[i];
}

static __device__ void put_integer(void *y, tess_dtype dtype, int64_t i, int64_t value)
{
    if (dtype == TESS_I64)
        ((int64_t *)y)[i] = value;
    else if (dtype == TESS_I32)
        ((int32_t *)y)[i] = (int32_t)(uint32_t)(uint64_t)value;
    else
        ((uint8_t *)y)[i] = (uint8_t)(uint64_t)value;
}

static __global__ void reduce_integers_kernel(reduce_call r)
{
    TESS_CUDA_EACH(i, r.of.n)
    {
        int64_t total = r.of.n_inputs > 0 ? get_integer(r.x[0], r.of.dtype, i) : 0;
        for (int k = 1; k < r.of.n_inputs; k++) {
            int64_t next = get_integer(r.x[k], r.of.dtype, i);
            if (r.of.op == TESS_MAX)
                total = total > next ? total : next;
            else if (r.of.op == TESS_MIN)
                total = total < next ? total : next;
            else
                total = (int64_t)((uint64_t)total + (uint64_t)next);
        }
        for (int k = 0; k < r.of.n_outputs; k++)
            put_integer(r.y[k], r.of.y_dtype, i, r.of.divisor != 1 ? total / r.of.divisor : total);
    }
}

static tess_status reduce(tess_stream *s, const tess_reduction *r)
{
    TESS_TRY(tess_check_reduction(r));
    TESS_CHECK(r->n_inputs <= MAX_INPUTS && r->n_outputs <= MAX_OUTPUTS, TESS_E_UNSUPPORTED,
               "reduce %d inputs to %d outputs: a GPU takes %d and %d in a call", r->n_inputs, r->n_outputs,
               (int)MAX_INPUTS, (int)MAX_OUTPUTS);
    reduce_call call = {};
    call.of = *r;
    for (int k = 0; k < r->n_inputs; k++)
        call.x[k] = r->x[k];
    for (int k = 0; k < r->n_outputs; k++)
        call.y[k] = r->y[k];
    if (r->n == 0)
        return TESS_OK;
    return tess_reduces_floats(r)
               ? TESS_CUDA_LAUNCH(reduce_floats_kernel, tess_cuda_blocks(r->n, THREADS), THREADS, 0, s, call)
               : TESS_CUDA_LAUNCH(reduce_integers_kernel, tess_cuda_blocks(r->n, THREADS), THREADS, 0, s, call);
}

void tess_kernels_cuda_reduce(tess_kernels *k)
{
    k->reduce = reduce;
}
