/* The names of dtypes in safetensors files. */
#include <string.h>

#include "ckpt/safetensors/safetensors_impl.h"

/* The order is that of huggingface/safetensors tensor.rs, enum Dtype. Writers sort tensors by dtype in descending
 * order. */
static const struct {
    const char *text;
    int bits;
} dtypes[] = {
    {"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
    {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
    {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64},
};

enum { N_DTYPES = sizeof(dtypes) / sizeof(dtypes[0]) };

int tess_st_dtype_number(const char *text)
{
    for (int i = 0; i < N_DTYPES; i++)
        if (strcmp(dtypes[i].text, text) == 0)
            return i;
    return -1;
}

int tess_st_dtype_bits(const char *text)
{
    int number = tess_st_dtype_number(text);
    return number < 0 ? 0 : dtypes[number].bits;
}

int tess_st_dtype_bytes(const char *dtype)
{
    int bits = tess_st_dtype_bits(dtype);
    return bits % 8 != 0 ? 0 : bits / 8;
}

bool tess_st_dtype_is_float(const char *dtype)
{
    return strcmp(dtype, "F32") == 0 || strcmp(dtype, "BF16") == 0 || strcmp(dtype, "F16") == 0 ||
           strcmp(dtype, "F64") == 0;
}

static const char *const texts[TESS_DTYPE_COUNT] = {
    [TESS_F32] = "F32", [TESS_BF16] = "BF16", [TESS_F16] = "F16",
    [TESS_I32] = "I32", [TESS_I64] = "I64",   [TESS_U8] = "U8",
};

const char *tess_st_dtype_of(tess_dtype dtype)
{
    return (int)dtype < 0 || dtype >= TESS_DTYPE_COUNT ? NULL : texts[dtype];
}

tess_dtype tess_st_dtype_parse(const char *text)
{
    int dtype = 0;
    while (dtype < TESS_DTYPE_COUNT && (texts[dtype] == NULL || strcmp(texts[dtype], text) != 0))
        dtype++;
    return (tess_dtype)dtype;
}
