/* Converts a file's values to float32 and back. Data may have any alignment, since a header's length need not be a
 * multiple of 8 bytes. The loops are simple so that the compiler vectorises them; memory bandwidth is the limit. */
#include <string.h>

#include "ckpt/safetensors/safetensors_impl.h"

static uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}

static float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, 4);
    return x;
}

/* Selects `yes` or `no` without a branch: compilers do not vectorise floating-point code after a branch. */
static uint32_t choose(bool condition, uint32_t yes, uint32_t no)
{
    uint32_t mask = 0u - (uint32_t)condition;
    return (yes & mask) | (no & ~mask);
}

static void read_bf16(const uint8_t *src, int64_t n, float *dst)
{
    for (int64_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, src + 2 * i, 2);
        dst[i] = float_of((uint32_t)h << 16);
    }
}

static void read_f16(const uint8_t *src, int64_t n, float *dst)
{
    for (int64_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, src + 2 * i, 2);
        uint32_t magnitude = h & 0x7fffu, sign = (uint32_t)(h & 0x8000u) << 16;
        /* Computes m * 2^-24 as (1 + m / 1024) * 2^-14 - 2^-14. This is exact, and neither operands nor result are
         * float32 subnormals. */
        uint32_t subnormal = bits_of(float_of((magnitude << 13) + (113u << 23)) - 0x1p-14f);
        uint32_t normal = (magnitude << 13) + (112u << 23);
        uint32_t u = choose(magnitude < 0x400, subnormal, normal);
        dst[i] = float_of(u | sign | choose(magnitude >= 0x7c00, 0x7f800000u, 0));
    }
}

static void read_f64(const uint8_t *src, int64_t n, float *dst)
{
    for (int64_t i = 0; i < n; i++) {
        double x;
        memcpy(&x, src + 8 * i, 8);
        dst[i] = (float)x;
    }
}

void tess_st_decode(const char *dtype, const void *src, int64_t n, float *dst)
{
    if (n <= 0)
        return;
    if (strcmp(dtype, "F32") == 0)
        memcpy(dst, src, (size_t)n * 4);
    else if (strcmp(dtype, "BF16") == 0)
        read_bf16(src, n, dst);
    else if (strcmp(dtype, "F16") == 0)
        read_f16(src, n, dst);
    else
        read_f64(src, n, dst);
}

/* Rounds to nearest even; NaN stays NaN (quiet). */
static uint16_t to_bf16(float x)
{
    uint32_t u = bits_of(x);
    uint32_t rounded = (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
    return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? u >> 16 | 0x40u : rounded);
}

static uint16_t to_f16(float x)
{
    uint32_t u = bits_of(x), sign = u >> 16 & 0x8000u, magnitude = u & 0x7fffffffu;
    /* Values under 2^-14 become subnormal. Adding 0.5 moves them to the last bits of the sum, and the FPU rounds them
     * to nearest even. */
    uint32_t subnormal = bits_of(float_of(choose(magnitude < 0x38800000u, magnitude, 0)) + 0.5f) - bits_of(0.5f);
    uint32_t normal = (magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    uint32_t special = choose(magnitude > 0x7f800000u, 0x7e00u | (magnitude >> 13 & 0x3ffu), 0x7c00u);
    uint32_t h = choose(magnitude >= 0x47800000u, special, choose(magnitude < 0x38800000u, subnormal, normal));
    return (uint16_t)(h | sign);
}

tess_status tess_st_encode(const float *src, int64_t n, tess_dtype dtype, void *dst)
{
    uint16_t *out = dst;
    TESS_CHECK(dtype == TESS_F32 || dtype == TESS_BF16 || dtype == TESS_F16, TESS_E_UNSUPPORTED,
               "numbers are written as float32, bfloat16 or float16");
    if (dtype == TESS_F32 && n > 0)
        memcpy(dst, src, (size_t)n * 4);
    for (int64_t i = 0; dtype == TESS_BF16 && i < n; i++)
        out[i] = to_bf16(src[i]);
    for (int64_t i = 0; dtype == TESS_F16 && i < n; i++)
        out[i] = to_f16(src[i]);
    return TESS_OK;
}
