/* Writes a file in the format of torch.save. */
#include <string.h>

#include "base/os/os.h"
#include "base/pickle/pickle_write.h"
#include "ckpt/formats/export_impl.h"

/* Writes the pickle of the dict {name: tensor, ..., "meta": ...}. */
static tess_status put_dict(const tess_export *out, tess_buffer *pickle)
{
    TESS_TRY(tess_pickle_put(pickle, TESS_PICKLE_BEGIN TESS_PICKLE_NEW_DICT));
    for (int i = 0; i < out->n_tensors; i++) {
        char key[16];
        const tess_export_tensor *t = &out->tensors[i];
        snprintf(key, sizeof(key), "%d", i);
        TESS_TRY(tess_pickle_put_text(pickle, t->name, strlen(t->name)));
        TESS_TRY_CTX(torch_put_tensor(pickle, t->dtype, t->element_bytes, t->n_dims, t->dim, key), "'%s'", t->name);
    }
    if (json_object_size(out->meta) > 0) {
        TESS_TRY(tess_pickle_put_text(pickle, "meta", 4));
        TESS_TRY(tess_pickle_put_json(pickle, out->meta));
    }
    return tess_pickle_put(pickle, TESS_PICKLE_FILL_DICT TESS_PICKLE_STOP);
}

static tess_status write_tensors(export_stream *stream, zip_writer *writer)
{
    const tess_export *out = stream->out;
    for (int i = 0; i < out->n_tensors; i++) {
        char name[64];
        tess_box whole = {0};
        const tess_export_tensor *t = &out->tensors[i];
        memcpy(whole.size, t->dim, sizeof(t->dim));
        snprintf(name, sizeof(name), "archive/data/%d", i);
        TESS_TRY(
            zip_writer_entry(writer, name, (uint64_t)tess_box_count(t->n_dims, &whole) * (uint64_t)t->element_bytes));
        TESS_TRY(export_stream_box(stream, t, &whole, writer));
    }
    return torch_end_archive(writer);
}

static tess_status write_file(const tess_export *out, const char *path, const tess_buffer *pickle,
                              const tess_write_options *options)
{
    output file;
    zip_writer writer;
    export_stream stream;
    TESS_TRY(output_create(out->mem, path, &file));
    export_stream_begin(out, options, &stream);
    tess_status status = torch_begin_archive(&file, &writer, pickle);
    if (status == TESS_OK)
        status = write_tensors(&stream, &writer);
    tess_mem_drop(&writer.entries);
    tess_mem_drop(&stream.block);
    return output_finish(&file, status);
}

tess_status tess_torch_write(const tess_export *out, const char *path, const tess_write_options *options)
{
    char temporary[4096];
    tess_buffer pickle = {.mem = out->mem};
    TESS_CHECK(snprintf(temporary, sizeof(temporary), "%s.tmp", path) < (int)sizeof(temporary), TESS_E_INVALID,
               "a path of more than %zu bytes", sizeof(temporary));
    TESS_TRY(tess_catalog_check(out->catalog));
    tess_status status = put_dict(out, &pickle);
    if (status == TESS_OK)
        status = write_file(out, temporary, &pickle, options);
    tess_buffer_free(&pickle);
    if (status == TESS_OK)
        status = tess_os_rename(temporary, path);
    if (status != TESS_OK)
        tess_os_remove(temporary);
    return status;
}
