/* Formats and reads the text of a stage, in which ranks describe the save and its tensors to the writer. */
#include <stdlib.h>
#include <string.h>

#include "base/text/json.h"
#include "ckpt/async/async_impl.h"
#include "ckpt/store/dims.h"

static json_t *describe_piece(const async_piece *p)
{
    const tess_ckpt_tensor *t = &p->tensor;
    char name[TESS_STORE_NAME];
    int n_dims = tess_ckpt_dims(t);
    tess_store_tensor_name(t->state, t->name, name);
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:I, s:I}", "name", name, "dtype", tess_store_dtype_text(t->stored),
                     "shape", tess_dims_to_json(t->shape.n_dims, t->shape.dim), "begin",
                     tess_dims_to_json(n_dims, t->primary.begin), "size", tess_dims_to_json(n_dims, t->primary.size),
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
    int n_begin, n_size;
    *piece = (tess_store_piece){.name = ""};
    TESS_TRY(tess_json_get_string(entry, "name", "stage", &piece->name));
    TESS_TRY(tess_json_get_string(entry, "dtype", "stage", &piece->dtype));
    TESS_TRY(tess_dims_from_json(entry, "shape", "stage", piece->dim, &piece->n_dims));
    TESS_TRY(tess_dims_from_json(entry, "begin", "stage", piece->box.begin, &n_begin));
    TESS_TRY(tess_dims_from_json(entry, "size", "stage", piece->box.size, &n_size));
    TESS_TRY(tess_json_get_int(entry, "offset", "stage", &offset));
    TESS_TRY(tess_json_get_int(entry, "bytes", "stage", &bytes));
    TESS_CHECK(n_begin == n_size && n_size == (piece->n_dims > 0 ? piece->n_dims : 1), TESS_E_FORMAT,
               "a stage's '%s' has %d dimensions, its box %d and %d", piece->name, piece->n_dims, n_begin, n_size);
    TESS_CHECK(offset >= 0 && bytes >= 0 && (uint64_t)offset + (uint64_t)bytes <= data_bytes, TESS_E_FORMAT,
               "a stage has %llu bytes, but '%s' ends after them", (unsigned long long)data_bytes, piece->name);
    piece->data = data + offset;
    piece->held = piece->box;
    return TESS_OK;
}
