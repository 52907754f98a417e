#include <stdlib.h>
#include <string.h>

#include "base/text/json.h"
#include "ckpt/async/async_impl.h"

static json_t *describe_piece(const async_piece *p)
{
    const tess_ckpt_tensor *t = &p->tensor;
    char name[TESS_STORE_NAME];
    json_t *shape = json_array();
    for (int d = 0; d < t->shape.n_dims; d++)
        json_array_append_new(shape, json_integer(t->shape.dim[d]));
    tess_store_tensor_name(t->kind, t->name, name);
    return json_pack("{s:s, s:s, s:o, s:I, s:I, s:I, s:I}", "name", name, "dtype", tess_store_dtype_text(t->stored),
                     "shape", shape, "begin", (json_int_t)t->primary_begin, "rows", (json_int_t)t->primary_rows,
                     "offset", (json_int_t)p->offset, "bytes", (json_int_t)p->bytes);
}

tess_status async_request_format(const async_piece *pieces, int n, json_t *request, char **text)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, describe_piece(&pieces[i]));
    json_t *whole = json_pack("{s:o, s:O?}", "pieces", list, "request", request);
    *text = whole == NULL || json_array_size(list) != (size_t)n ? NULL : json_dumps(whole, JSON_COMPACT);
    json_decref(whole);
    return *text != NULL ? TESS_OK : TESS_FAIL(TESS_E_NOMEM, "no memory to describe a save");
}

tess_status async_request_piece(const json_t *request, size_t i, const uint8_t *data, uint64_t data_bytes,
                                tess_store_piece *piece)
{
    int64_t offset = 0, bytes = 0;
    const json_t *entry = json_array_get(json_object_get(request, "pieces"), i);
    const json_t *shape = json_object_get(entry, "shape");
    *piece = (tess_store_piece){.name = ""};
    TESS_TRY(tess_json_get_string(entry, "name", "stage", &piece->name));
    TESS_TRY(tess_json_get_string(entry, "dtype", "stage", &piece->dtype));
    TESS_TRY(tess_json_get_int(entry, "begin", "stage", &piece->row_begin));
    TESS_TRY(tess_json_get_int(entry, "rows", "stage", &piece->n_rows));
    TESS_TRY(tess_json_get_int(entry, "offset", "stage", &offset));
    TESS_TRY(tess_json_get_int(entry, "bytes", "stage", &bytes));
    TESS_CHECK(json_array_size(shape) <= TESS_MAX_DIMS, TESS_E_FORMAT, "a stage's shape has too many dimensions");
    piece->n_dims = (int)json_array_size(shape);
    for (int d = 0; d < piece->n_dims; d++)
        piece->dim[d] = json_integer_value(json_array_get(shape, (size_t)d));
    TESS_CHECK(offset >= 0 && bytes >= 0 && (uint64_t)offset + (uint64_t)bytes <= data_bytes, TESS_E_FORMAT,
               "a stage has %llu bytes, but '%s' ends after them", (unsigned long long)data_bytes, piece->name);
    piece->data = data + offset;
    return TESS_OK;
}
