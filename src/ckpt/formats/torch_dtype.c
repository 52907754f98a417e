#include <string.h>

#include "ckpt/formats/torch_impl.h"

static const struct {
    const char *ours, *name, *storage;
    int bytes;
} dtypes[] = {
    {"F32", "torch.float32", "FloatStorage", 4},
    {"BF16", "torch.bfloat16", "BFloat16Storage", 2},
    {"F16", "torch.float16", "HalfStorage", 2},
    {"F64", "torch.float64", "DoubleStorage", 8},
    {"I64", "torch.int64", "LongStorage", 8},
    {"I32", "torch.int32", "IntStorage", 4},
    {"I16", "torch.int16", "ShortStorage", 2},
    {"I8", "torch.int8", "CharStorage", 1},
    {"U8", "torch.uint8", "ByteStorage", 1},
    {"BOOL", "torch.bool", "BoolStorage", 1},
    {"C64", "torch.complex64", "ComplexFloatStorage", 8},
    {"U16", "torch.uint16", NULL, 2},
    {"U32", "torch.uint32", NULL, 4},
    {"U64", "torch.uint64", NULL, 8},
    {"F8_E4M3", "torch.float8_e4m3fn", NULL, 1},
    {"F8_E5M2", "torch.float8_e5m2", NULL, 1},
    {"F8_E4M3FNUZ", "torch.float8_e4m3fnuz", NULL, 1},
    {"F8_E5M2FNUZ", "torch.float8_e5m2fnuz", NULL, 1},
    {"F8_E8M0", "torch.float8_e8m0fnu", NULL, 1},
};

enum { N_DTYPES = sizeof(dtypes) / sizeof(dtypes[0]) };

const char *torch_dtype(const char *name, int *element_bytes)
{
    for (size_t i = 0; i < N_DTYPES; i++)
        if (strcmp(dtypes[i].name, name) == 0) {
            *element_bytes = dtypes[i].bytes;
            return dtypes[i].ours;
        }
    return NULL;
}

const char *torch_storage_dtype(const char *storage, int *element_bytes)
{
    if (strncmp(storage, "torch.", 6) != 0)
        return NULL;
    for (size_t i = 0; i < N_DTYPES; i++)
        if (dtypes[i].storage != NULL && strcmp(dtypes[i].storage, storage + 6) == 0) {
            *element_bytes = dtypes[i].bytes;
            return dtypes[i].ours;
        }
    return NULL;
}

bool torch_dtype_names(const char *dtype, const char **name, const char **storage)
{
    for (size_t i = 0; i < N_DTYPES; i++)
        if (strcmp(dtypes[i].ours, dtype) == 0) {
            *name = dtypes[i].name;
            *storage = dtypes[i].storage;
            return true;
        }
    return false;
}
