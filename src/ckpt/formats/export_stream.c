/* Reads tensors of an export, and writes them into archives block by block. */
#include <string.h>

#include "ckpt/formats/export_impl.h"
#include "base/core/flat.h"
#include "ckpt/safetensors/safetensors.h"

enum { BLOCK_BYTES = 8 << 20 };

/* ---- Values ---- */
uint64_t tess_export_bytes(const tess_export *out)
{
    uint64_t all = 0;
    for (int i = 0; i < out->n_tensors; i++) {
        const tess_export_tensor *tensor = &out->tensors[i];
        uint64_t bytes = (uint64_t)tensor->element_bytes;
        for (int d = 0; d < tensor->n_dims; d++)
            bytes *= (uint64_t)tensor->dim[d];
        all += bytes;
    }
    return all;
}

tess_status tess_export_read(const tess_export *out, const tess_export_tensor *tensor, const tess_box *box, void *dst)
{
    const tess_catalog_tensor *source = tensor->source;
    int64_t n = tess_box_count(tensor->n_dims, box);
    tess_dtype dtype = strcmp(tensor->dtype, "BF16") == 0 ? TESS_BF16 : TESS_F16;
    TESS_AUTO(tess_mem_drop) float *values = NULL;
    if (source == NULL) {
        memcpy(dst, tensor->value, (size_t)tensor->element_bytes);
        return TESS_OK;
    }
    if (strcmp(tensor->dtype, source->dtype) == 0)
        return tess_catalog_read(out->catalog, source, box, dst);
    if (strcmp(tensor->dtype, "F32") == 0)
        return tess_catalog_read_floats(out->catalog, source, box, dst);
    TESS_TRY(TESS_NEW(out->mem, n, "conversion", &values));
    TESS_TRY(tess_catalog_read_floats(out->catalog, source, box, values));
    return tess_st_encode(values, n, dtype, dst);
}

/* ---- Blocks ---- */
void export_stream_begin(const tess_export *out, const tess_write_options *options, export_stream *stream)
{
    *stream = (export_stream){.out = out, .options = options, .all = tess_export_bytes(out)};
}

/* Whether the tensor has packed pieces. Every read of a packed piece unpacks all of it, so such tensors are read at
 * once. */
static bool is_packed(const tess_export *out, const tess_export_tensor *tensor)
{
    const tess_catalog_tensor *source = tensor->source;
    for (int i = 0; source != NULL && i < source->n_pieces; i++)
        if (out->catalog->pieces[source->first_piece + i].codec != TESS_CODEC_NONE)
            return true;
    return false;
}

/* Writes elements of the box in row-major order, starting at `first`, at most `most`. *taken: number of elements
 * written. */
static tess_status copy_block(export_stream *stream, const tess_export_tensor *tensor, const tess_box *box,
                              int64_t first, int64_t most, zip_writer *writer, int64_t *taken)
{
    tess_box part;
    const tess_catalog_visitor *visitor = stream->options->visitor;
    *taken = tess_flat_slice(tensor->n_dims, box, first, most, &part);
    size_t bytes = (size_t)*taken * (size_t)tensor->element_bytes;
    if (bytes > stream->block_bytes) {
        TESS_TRY(tess_mem_grow(stream->out->mem, TESS_POOL_MISC, bytes, "block of an export", (void **)&stream->block));
        stream->block_bytes = bytes;
    }
    TESS_TRY_CTX(tess_export_read(stream->out, tensor, &part, stream->block), "'%s'", tensor->name);
    TESS_TRY(zip_writer_data(writer, stream->block, bytes));
    stream->done += bytes;
    if (visitor != NULL && visitor->progress != NULL)
        visitor->progress(visitor->self, stream->done, stream->all);
    return TESS_OK;
}

tess_status export_stream_box(export_stream *stream, const tess_export_tensor *tensor, const tess_box *box,
                              zip_writer *writer)
{
    int64_t n = tess_box_count(tensor->n_dims, box);
    int64_t most = is_packed(stream->out, tensor) ? n : BLOCK_BYTES / tensor->element_bytes;
    for (int64_t first = 0, taken; first < n; first += taken)
        TESS_TRY(copy_block(stream, tensor, box, first, n - first < most ? n - first : most, writer, &taken));
    return TESS_OK;
}
