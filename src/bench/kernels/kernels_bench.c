/* Provides the limits of a race and the operands of kernels, for all subjects of `tessera bench kernels`. */
#include <string.h>

#include "bench/kernels/kernels_impl.h"
#include "device/peak.h"

enum { PATTERN = 4093 };

static double measure_limit(const void *self, int limit)
{
    const kernels_bench *bench = self;
    if (bench->apart->device != NULL)
        return kernels_apart_limit(bench->apart, limit);
    if (limit == KERNELS_LIMIT_F32 || limit == KERNELS_LIMIT_BF16)
        return tess_peak_flops(bench->stream, limit == KERNELS_LIMIT_BF16 ? TESS_BF16 : TESS_F32);
    return tess_bench_traffic_rate(bench->arrays, limit == KERNELS_LIMIT_READ ? TESS_BENCH_READ : TESS_BENCH_TRIAD);
}

void kernels_bench_limit(const kernels_bench *bench, kernels_limit limit, tess_bench_race *race)
{
    race->measure_limit = measure_limit;
    race->limit_self = bench;
    race->limit = limit;
    race->cold = limit == KERNELS_LIMIT_TRIAD || limit == KERNELS_LIMIT_READ;
    race->clock = bench->apart->device != NULL ? &bench->apart->clock : NULL;
}

/* Fills an operand with a repeated pattern of prime length: no two rows are equal, and it is filled at the speed of
 * memory. */
tess_status kernels_bench_operand(const kernels_bench *bench, int64_t count, tess_dtype dtype, void **out)
{
    size_t size = tess_dtype_size(dtype), total = (size_t)count * size, filled = PATTERN * size;
    union {
        float f32[PATTERN];
        uint16_t bf16[PATTERN];
    } pattern;
    for (int i = 0; i < PATTERN; i++) {
        float value = (float)((i * 2654435761u >> 16) % 2001) / 1000.5f - 1;
        uint32_t bits;
        memcpy(&bits, &value, sizeof(bits));
        if (dtype == TESS_BF16)
            pattern.bf16[i] = (uint16_t)(bits >> 16);
        else
            pattern.f32[i] = value;
    }
    TESS_TRY(tess_device_alloc(tess_stream_device(bench->stream), TESS_POOL_MISC, total, "bench operand", out));
    TESS_TRY(tess_upload(bench->stream, *out, &pattern, total < filled ? total : filled));
    for (; filled < total; filled *= 2)
        TESS_TRY(tess_stream_copy(bench->stream, (char *)*out + filled, *out,
                                  total - filled < filled ? total - filled : filled));
    return TESS_OK;
}

tess_status kernels_bench_integers(const kernels_bench *bench, int64_t count, int64_t factor, int64_t modulus,
                                   void **out)
{
    TESS_AUTO(tess_mem_drop) int32_t *list = NULL;
    size_t bytes = (size_t)count * sizeof(*list);
    TESS_TRY(tess_device_alloc(tess_stream_device(bench->stream), TESS_POOL_MISC, bytes, "bench operand", out));
    TESS_TRY(tess_mem_alloc(bench->mem, TESS_POOL_MISC, bytes, "bench operand", (void **)&list));
    for (int64_t i = 0; i < count; i++)
        list[i] = (int32_t)(i * factor % modulus);
    return tess_upload(bench->stream, *out, list, bytes);
}

void kernels_bench_release(const kernels_bench *bench, void *const *operands, int n)
{
    for (int i = 0; i < n; i++)
        tess_device_free(tess_stream_device(bench->stream), operands[i]);
}
