#include "tessera/types.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "base/text/text.h"

static const struct {
    const char *name, *alias;
    size_t size;
} dtypes[TESS_DTYPE_COUNT] = {
    [TESS_F32] = {"float32", "fp32", 4}, [TESS_BF16] = {"bfloat16", "bf16", 2}, [TESS_F16] = {"float16", "fp16", 2},
    [TESS_I32] = {"int32", "i32", 4},    [TESS_I64] = {"int64", "i64", 8},      [TESS_U8] = {"uint8", "u8", 1},
};

size_t tess_dtype_size(tess_dtype dtype)
{
    return (unsigned)dtype < TESS_DTYPE_COUNT ? dtypes[dtype].size : 0;
}

const char *tess_dtype_name(tess_dtype dtype)
{
    return (unsigned)dtype < TESS_DTYPE_COUNT ? dtypes[dtype].name : "unknown";
}

tess_status tess_dtype_parse(const char *text, tess_dtype *dtype)
{
    for (int i = 0; i < TESS_DTYPE_COUNT; i++)
        if (strcasecmp(text, dtypes[i].name) == 0 || strcasecmp(text, dtypes[i].alias) == 0) {
            *dtype = (tess_dtype)i;
            return TESS_OK;
        }
    return TESS_FAIL(TESS_E_INVALID, "'%.40s' is no dtype: choose float32, bfloat16, float16, int32, int64 or uint8",
                     text);
}

int64_t tess_shape_count(const tess_shape *shape)
{
    int64_t count = 1;
    for (int d = 0; d < shape->n_dims; d++)
        count *= shape->dim[d];
    return count;
}

int64_t tess_shape_rows(const tess_shape *shape)
{
    return shape->n_dims > 0 ? shape->dim[0] : 1;
}

int64_t tess_shape_row_count(const tess_shape *shape)
{
    int64_t count = 1;
    for (int d = 1; d < shape->n_dims; d++)
        count *= shape->dim[d];
    return count;
}

bool tess_shape_equal(const tess_shape *a, const tess_shape *b)
{
    return a->n_dims == b->n_dims && memcmp(a->dim, b->dim, (size_t)a->n_dims * sizeof(a->dim[0])) == 0;
}

tess_shape tess_shape_atleast_1d(const tess_shape *shape)
{
    return shape->n_dims > 0 ? *shape : (tess_shape){1, {1}};
}

const char *tess_dims_format(int n_dims, const int64_t *dim, char *text, size_t size)
{
    size_t at = tess_text_add(text, size, 0, "[");
    for (int d = 0; d < n_dims; d++)
        at = tess_text_add(text, size, at, "%s%" PRId64, d > 0 ? ", " : "", dim[d]);
    tess_text_add(text, size, at, "]");
    return text;
}

const char *tess_shape_format(const tess_shape *shape, char *text, size_t size)
{
    return tess_dims_format(shape->n_dims, shape->dim, text, size);
}

void tess_shard_rows(int64_t n_rows, int n_parts, int index, int64_t *begin, int64_t *count)
{
    int64_t chunk = (n_rows + n_parts - 1) / n_parts;
    int64_t first = chunk * index < n_rows ? chunk * index : n_rows;
    int64_t last = first + chunk < n_rows ? first + chunk : n_rows;
    *begin = first;
    *count = last - first;
}
