#include <string.h>

#include "base/os/os.h"
#include "base/pickle/pickle_write.h"
#include "ckpt/formats/dcp_impl.h"
#include "ckpt/formats/dcp_write_impl.h"
#include "ckpt/formats/formats_impl.h"
#include "ckpt/formats/torch_put.h"

enum { PATH_SIZE = 4096 };

/* Every item is an archive of its own. */
static tess_status write_chunk(export_stream *stream, output *file, dcp_chunk *chunk)
{
    const tess_export_tensor *tensor = &stream->out->tensors[chunk->tensor];
    zip_writer writer = {.out = file};
    tess_buffer pickle = {.mem = stream->out->mem};
    uint64_t bytes = (uint64_t)tess_box_count(tensor->n_dims, &chunk->box) * (uint64_t)tensor->element_bytes;
    chunk->place.offset = file->at;
    tess_status status = tess_pickle_put(&pickle, TESS_PICKLE_BEGIN);
    if (status == TESS_OK)
        status = torch_put_tensor(&pickle, tensor->dtype, tensor->element_bytes, tensor->n_dims, chunk->box.size, "0");
    if (status == TESS_OK)
        status = tess_pickle_put(&pickle, TESS_PICKLE_STOP);
    if (status == TESS_OK)
        status = torch_begin_archive(file, &writer, &pickle);
    if (status == TESS_OK)
        status = zip_writer_entry(&writer, "archive/data/0", bytes);
    if (status == TESS_OK)
        status = export_stream_box(stream, tensor, &chunk->box, &writer);
    if (status == TESS_OK)
        status = torch_end_archive(&writer);
    zip_writer_drop(&writer);
    tess_buffer_free(&pickle);
    chunk->place.length = file->at - chunk->place.offset;
    return status;
}

static tess_status write_object(output *file, dcp_object *object)
{
    zip_writer writer = {.out = file};
    tess_buffer pickle = {.mem = file->mem};
    object->place.offset = file->at;
    tess_status status = tess_pickle_write(object->value, &pickle);
    if (status == TESS_OK)
        status = torch_begin_archive(file, &writer, &pickle);
    if (status == TESS_OK)
        status = torch_end_archive(&writer);
    zip_writer_drop(&writer);
    tess_buffer_free(&pickle);
    object->place.length = file->at - object->place.offset;
    return status;
}

/* Chunks [begin, end) of the plan by file, all of one; objects are in the first file. */
static tess_status write_items(dcp_plan *plan, export_stream *stream, output *file, size_t begin, size_t end)
{
    for (size_t i = 0; begin == 0 && i < plan->n_objects; i++) {
        plan->objects[i].place.file = end > 0 ? plan->by_file[0]->place.file : 0;
        TESS_TRY(write_object(file, &plan->objects[i]));
    }
    for (size_t i = begin; i < end; i++)
        TESS_TRY(write_chunk(stream, file, plan->by_file[i]));
    return TESS_OK;
}

static tess_status write_file(dcp_plan *plan, export_stream *stream, const char *folder, size_t begin, size_t end)
{
    char path[PATH_SIZE], name[64];
    output file;
    dcp_file_name(begin < end ? plan->by_file[begin]->place.file : 0, name, sizeof(name));
    TESS_TRY(tess_os_join(path, sizeof(path), folder, name));
    TESS_TRY(output_create(plan->out->mem, path, &file));
    return output_finish(&file, write_items(plan, stream, &file, begin, end));
}

static tess_status write_files(dcp_plan *plan, export_stream *stream, const char *folder)
{
    size_t begin = 0, end;
    do {
        for (end = begin; end < plan->n_chunks && plan->by_file[end]->place.file == plan->by_file[begin]->place.file;)
            end++;
        TESS_TRY(write_file(plan, stream, folder, begin, end));
        begin = end;
    } while (begin < plan->n_chunks);
    return TESS_OK;
}

static tess_status write_metadata(const dcp_plan *plan, const char *folder)
{
    char path[PATH_SIZE];
    tess_buffer pickle = {.mem = plan->out->mem};
    TESS_TRY(tess_os_join(path, sizeof(path), folder, DCP_METADATA));
    tess_status status = dcp_put_metadata(plan, &pickle);
    if (status == TESS_OK)
        status = tess_os_write_atomic(path, pickle.data, pickle.size);
    tess_buffer_free(&pickle);
    return status;
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
    export_stream_end(&stream);
    if (status == TESS_OK)
        status = write_metadata(plan, folder);
    if (status != TESS_OK)
        remove_files(plan, folder);
    return status;
}

tess_status tess_dcp_write(const tess_export *out, const char *folder, const tess_write_options *options)
{
    dcp_plan plan;
    TESS_CHECK(!tess_folder_holds(folder, DCP_METADATA), TESS_E_INVALID, "%s: there is a checkpoint already", folder);
    TESS_TRY(tess_catalog_check(out->catalog));
    TESS_TRY(tess_os_make_dirs(folder));
    tess_status status = dcp_plan_make(out, options->n_files, &plan);
    if (status == TESS_OK)
        status = write_all(&plan, folder, options);
    dcp_plan_free(&plan);
    return status;
}
