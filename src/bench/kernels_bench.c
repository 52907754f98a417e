/* Limits of a race and operands of kernels, for all subjects of `tessera bench kernels`. */
#include <string.h>

#include "bench/kernels_impl.h"
#include "device/peak.h"

enum { PATTERN = 4093 };

/* ---- Limits ---- */

static double peak_bf16(void *stream)
{
    return tess_peak_flops(stream, TESS_BF16);
}

static double peak_f32(void *stream)
{
    return tess_peak_flops(stream, TESS_F32);
}

static double triad(void *arrays)
{
    return tess_bench_traffic_rate(arrays, TESS_BENCH_TRIAD);
}

static double read_only(void *arrays)
{
    return tess_bench_traffic_rate(arrays, TESS_BENCH_READ);
}

void kernels_bench_limit_peak(const kernels_bench *bench, tess_dtype dtype, tess_bench_race *race)
{
    race->limit = dtype == TESS_BF16 ? peak_bf16 : peak_f32;
    race->limit_self = bench->stream;
    race->cold = false;
}

void kernels_bench_limit_memory(const kernels_bench *bench, tess_bench_traffic traffic, tess_bench_race *race)
{
    race->limit = traffic == TESS_BENCH_READ ? read_only : triad;
    race->limit_self = bench->arrays;
    race->cold = true;
}

/* ---- Operands ---- */

/* A pattern of prime length, repeated: no two rows alike, and filled at the speed of memory. */
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
    TESS_TRY(tess_mem_alloc(bench->mem, TESS_POOL_MISC, total, "bench operand", out));
    memcpy(*out, &pattern, total < filled ? total : filled);
    for (; filled < total; filled *= 2)
        memcpy((char *)*out + filled, *out, total - filled < filled ? total - filled : filled);
    return TESS_OK;
}

void kernels_bench_release(const kernels_bench *bench, void *const *operands, int n)
{
    for (int i = 0; i < n; i++)
        tess_mem_free(bench->mem, operands[i]);
}
