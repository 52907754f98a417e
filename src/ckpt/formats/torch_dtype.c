/* The names of dtypes in PyTorch's files, and in catalogs. */
#include <string.h>

#include "ckpt/formats/torch_impl.h"

static const torch_dtype dtypes[] = {
    {"F32", "torch.float32", "torch.FloatStorage", 4},
    {"BF16", "torch.bfloat16", "torch.BFloat16Storage", 2},
    {"F16", "torch.float16", "torch.HalfStorage", 2},
    {"F64", "torch.float64", "torch.DoubleStorage", 8},
    {"I64", "torch.int64", "torch.LongStorage", 8},
    {"I32", "torch.int32", "torch.IntStorage", 4},
    {"I16", "torch.int16", "torch.ShortStorage", 2},
    {"I8", "torch.int8", "torch.CharStorage", 1},
    {"U8", "torch.uint8", "torch.ByteStorage", 1},
    {"BOOL", "torch.bool", "torch.BoolStorage", 1},
    {"C64", "torch.complex64", "torch.ComplexFloatStorage", 8},
    {"U16", "torch.uint16", NULL, 2},
    {"U32", "torch.uint32", NULL, 4},
    {"U64", "torch.uint64", NULL, 8},
    {"F8_E4M3", "torch.float8_e4m3fn", NULL, 1},
    {"F8_E5M2", "torch.float8_e5m2", NULL, 1},
    {"F8_E4M3FNUZ", "torch.float8_e4m3fnuz", NULL, 1},
    {"F8_E5M2FNUZ", "torch.float8_e5m2fnuz", NULL, 1},
    {"F8_E8M0", "torch.float8_e8m0fnu", NULL, 1},
};

const torch_dtype *torch_find_dtype(torch_dtype_key key, const char *text)
{
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
        const char *const texts[] = {dtypes[i].catalog, dtypes[i].name, dtypes[i].storage};
        if (texts[key] != NULL && strcmp(texts[key], text) == 0)
            return &dtypes[i];
    }
    return NULL;
}
