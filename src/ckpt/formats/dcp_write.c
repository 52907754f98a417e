/* Writes a distributed checkpoint (DCP). */
#include <string.h>

#include "base/os/os.h"
#include "base/pickle/pickle_write.h"
#include "ckpt/formats/dcp_impl.h"
#include "ckpt/formats/formats.h"

enum { PATH_SIZE = 4096 };

/* Writes one item as an archive: a chunk of a tensor or, if `chunk` is NULL, an object. Sets *place to where it is. */
static tess_status write_archive(export_stream *stream, output *file, const tess_buffer *pickle, const dcp_chunk *chunk,
                                 dcp_place *place)
{
    zip_writer writer;
    place->offset = file->at;
    tess_status status = torch_begin_archive(file, &writer, pickle);
    if (status == TESS_OK && chunk != NULL) {
        const tess_export_tensor *tensor = &stream->out->tensors[chunk->tensor];
        status =
            zip_writer_entry(&writer, "archive/data/0",
                             (uint64_t)tess_box_count(tensor->n_dims, &chunk->box) * (uint64_t)tensor->element_bytes);
        if (status == TESS_OK)
            status = export_stream_box(stream, tensor, &chunk->box, &writer);
    }
    if (status == TESS_OK)
        status = torch_end_archive(&writer);
    tess_mem_drop(&writer.entries);
    place->length = file->at - place->offset;
    return status;
}

static tess_status put_chunk(const export_stream *stream, const dcp_chunk *chunk, tess_buffer *pickle)
{
    const tess_export_tensor *tensor = &stream->out->tensors[chunk->tensor];
    TESS_TRY(tess_pickle_put(pickle, TESS_PICKLE_BEGIN));
    TESS_TRY(torch_put_tensor(pickle, tensor->dtype, tensor->element_bytes, tensor->n_dims, chunk->box.size, "0"));
    return tess_pickle_put(pickle, TESS_PICKLE_STOP);
}

static tess_status write_chunk(export_stream *stream, output *file, dcp_chunk *chunk)
{
    TESS_AUTO(tess_buffer_free) tess_buffer pickle = {.mem = stream->out->mem};
    TESS_TRY(put_chunk(stream, chunk, &pickle));
    return write_archive(stream, file, &pickle, chunk, &chunk->place);
}

static tess_status write_object(export_stream *stream, output *file, dcp_object *object)
{
    TESS_AUTO(tess_buffer_free) tess_buffer pickle = {.mem = stream->out->mem};
    TESS_TRY(tess_pickle_write(object->value, &pickle));
    return write_archive(stream, file, &pickle, NULL, &object->place);
}

/* Writes chunks [begin, end) of plan->by_file, which are all in one file. The first file also gets the objects. */
static tess_status write_items(dcp_plan *plan, export_stream *stream, output *file, size_t begin, size_t end)
{
    for (size_t i = 0; begin == 0 && i < plan->n_objects; i++) {
        plan->objects[i].place.file = end > 0 ? plan->by_file[0]->place.file : 0;
        TESS_TRY(write_object(stream, file, &plan->objects[i]));
    }
    for (size_t i = begin; i < end; i++)
        TESS_TRY(write_chunk(stream, file, plan->by_file[i]));
    return TESS_OK;
}

/* Writes all files. A file is created even if it has no items. */
static tess_status write_files(dcp_plan *plan, export_stream *stream, const char *folder)
{
    size_t begin = 0, end = 0;
    do {
        char path[PATH_SIZE], name[64];
        output file;
        int number = plan->n_chunks > 0 ? plan->by_file[begin]->place.file : 0;
        while (end < plan->n_chunks && plan->by_file[end]->place.file == number)
            end++;
        dcp_file_name(number, name, sizeof(name));
        TESS_TRY(tess_os_join(path, sizeof(path), folder, name));
        TESS_TRY(output_create(plan->out->mem, path, &file));
        TESS_TRY(output_finish(&file, write_items(plan, stream, &file, begin, end)));
        begin = end;
    } while (begin < plan->n_chunks);
    return TESS_OK;
}

static tess_status write_metadata(const dcp_plan *plan, const char *folder)
{
    char path[PATH_SIZE];
    TESS_AUTO(tess_buffer_free) tess_buffer pickle = {.mem = plan->out->mem};
    TESS_TRY(tess_os_join(path, sizeof(path), folder, DCP_METADATA));
    TESS_TRY(dcp_put_metadata(plan, &pickle));
    return tess_os_write_atomic(path, pickle.data, pickle.size);
}

static void remove_files(const dcp_plan *plan, const char *folder)
{
    char path[PATH_SIZE], name[64];
    for (int i = 0; i < plan->n_files; i++) {
        dcp_file_name(i, name, sizeof(name));
        if (tess_os_join(path, sizeof(path), folder, name) == TESS_OK)
            tess_os_remove(path);
    }
    tess_os_remove_empty_dir(folder);
}

static tess_status write_all(dcp_plan *plan, const char *folder, const tess_write_options *options)
{
    export_stream stream;
    export_stream_begin(plan->out, options, &stream);
    tess_status status = write_files(plan, &stream, folder);
    tess_mem_drop(&stream.block);
    if (status == TESS_OK)
        status = write_metadata(plan, folder);
    if (status != TESS_OK)
        remove_files(plan, folder);
    return status;
}

tess_status tess_dcp_write(const tess_export *out, const char *folder, const tess_write_options *options)
{
    TESS_AUTO(dcp_plan_free) dcp_plan plan = {.out = out};
    TESS_CHECK(!tess_folder_holds(folder, DCP_METADATA), TESS_E_INVALID, "%s: there is a checkpoint already", folder);
    TESS_TRY(tess_catalog_check(out->catalog));
    TESS_TRY(tess_os_make_dirs(folder));
    TESS_TRY(dcp_plan_make(out, options->n_files, &plan));
    return write_all(&plan, folder, options);
}
