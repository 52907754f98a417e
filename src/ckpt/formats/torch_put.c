/* Writes archives in the format of torch.save. */
#include <string.h>

#include "base/pickle/pickle_write.h"
#include "ckpt/formats/export_impl.h"
#include "ckpt/formats/torch_impl.h"

static tess_status put_dims(tess_buffer *out, int n_dims, const int64_t *dim)
{
    TESS_TRY(tess_pickle_put(out, TESS_PICKLE_MARK));
    for (int i = 0; i < n_dims; i++)
        TESS_TRY(tess_pickle_put_int(out, dim[i]));
    return tess_pickle_put(out, TESS_PICKLE_MAKE_TUPLE);
}

/* Appends a storage, ("storage", class, key, "cpu", elements), whose values are the record data/<key>. */
static tess_status put_storage(tess_buffer *out, const char *storage, int64_t n, const char *key)
{
    TESS_TRY(tess_pickle_put(out, TESS_PICKLE_MARK));
    TESS_TRY(tess_pickle_put_text(out, "storage", 7));
    TESS_TRY(storage != NULL ? tess_pickle_put_name(out, "torch", strchr(storage, '.') + 1)
                             : tess_pickle_put_name(out, "torch.storage", "UntypedStorage"));
    TESS_TRY(tess_pickle_put_text(out, key, strlen(key)));
    TESS_TRY(tess_pickle_put_text(out, "cpu", 3));
    TESS_TRY(tess_pickle_put_int(out, n));
    TESS_TRY(tess_pickle_put(out, TESS_PICKLE_MAKE_TUPLE));
    return tess_pickle_put(out, TESS_PICKLE_BY_ID);
}

tess_status torch_put_tensor(tess_buffer *out, const char *dtype, int element_bytes, int n_dims, const int64_t *dim,
                             const char *key)
{
    const torch_dtype *known = torch_find_dtype(TORCH_BY_CATALOG, dtype);
    int64_t n = 1, step = 1, stride[TESS_CATALOG_DIMS];
    for (int i = 0; i < n_dims; i++)
        n *= dim[i];
    for (int i = n_dims; i-- > 0; step *= dim[i] > 0 ? dim[i] : 1)
        stride[i] = step;
    TESS_CHECK(known != NULL, TESS_E_UNSUPPORTED, "PyTorch has no dtype for %s", dtype);
    bool typed = known->storage != NULL;
    TESS_TRY(tess_pickle_put_name(out, "torch._utils", typed ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3"));
    TESS_TRY(tess_pickle_put(out, TESS_PICKLE_MARK));
    TESS_TRY(put_storage(out, known->storage, typed ? n : n * element_bytes, key));
    TESS_TRY(tess_pickle_put_int(out, 0));
    TESS_TRY(put_dims(out, n_dims, dim));
    TESS_TRY(put_dims(out, n_dims, stride));
    TESS_TRY(tess_pickle_put(out, TESS_PICKLE_FALSE)); /* requires_grad: False */
    TESS_TRY(tess_pickle_put_name(out, "collections", "OrderedDict"));
    TESS_TRY(tess_pickle_put(out, TESS_PICKLE_NO_ITEMS TESS_PICKLE_CALL)); /* an empty OrderedDict: no hooks */
    if (!typed)
        TESS_TRY(tess_pickle_put_name(out, "torch", strchr(known->name, '.') + 1));
    return tess_pickle_put(out, TESS_PICKLE_MAKE_TUPLE TESS_PICKLE_CALL);
}

tess_status torch_begin_archive(output *out, zip_writer *writer, const tess_buffer *pickle)
{
    *writer = (zip_writer){.out = out, .begin = out->at};
    TESS_TRY(zip_writer_add(writer, "archive/data.pkl", pickle->data, pickle->size));
    return zip_writer_add(writer, "archive/byteorder", "little", 6);
}

tess_status torch_end_archive(zip_writer *writer)
{
    TESS_TRY(zip_writer_add(writer, "archive/version", "3\n", 2));
    return zip_writer_end(writer);
}
