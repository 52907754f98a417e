#include "ckpt/tools/tool_values.h"

#include <string.h>

#include "ckpt/safetensors/safetensors.h"

enum { BLOCK = 256 };

/* Integers by their width in bytes and their sign. */
static const struct integer {
    const char *dtype;
    int bytes;
    bool negative;
} integers[] = {{"I64", 8, true},  {"I32", 4, true},  {"I16", 2, true}, {"I8", 1, true},   {"U64", 8, false},
                {"U32", 4, false}, {"U16", 2, false}, {"U8", 1, false}, {"BOOL", 1, false}};

static const struct integer *find_integer(const char *dtype)
{
    for (size_t i = 0; i < sizeof(integers) / sizeof(integers[0]); i++)
        if (strcmp(integers[i].dtype, dtype) == 0)
            return &integers[i];
    return NULL;
}

bool tess_values_are_numbers(const char *dtype)
{
    return tess_st_dtype_is_float(dtype) || find_integer(dtype) != NULL;
}

static double integer_at(const struct integer *type, const uint8_t *src)
{
    uint64_t bits = 0;
    int shift = 64 - 8 * type->bytes;
    memcpy(&bits, src, (size_t)type->bytes);
    return type->negative ? (double)((int64_t)(bits << shift) >> shift) : (double)bits;
}

static void decode_floats(const char *dtype, const uint8_t *src, int64_t n, double *dst)
{
    float values[BLOCK];
    int64_t bytes = tess_st_dtype_bytes(dtype);
    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t count = n - at < BLOCK ? n - at : BLOCK;
        tess_st_decode(dtype, src + at * bytes, count, values);
        for (int64_t i = 0; i < count; i++)
            dst[at + i] = (double)values[i];
    }
}

void tess_values_decode(const char *dtype, const void *src, int64_t n, double *dst)
{
    const struct integer *type = find_integer(dtype);
    if (strcmp(dtype, "F64") == 0) {
        memcpy(dst, src, (size_t)n * sizeof(double));
    } else if (type == NULL) {
        decode_floats(dtype, src, n, dst);
    } else {
        for (int64_t i = 0; i < n; i++)
            dst[i] = integer_at(type, (const uint8_t *)src + i * type->bytes);
    }
}
