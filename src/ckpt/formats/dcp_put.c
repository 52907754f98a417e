/* Formats .metadata of a distributed checkpoint: the pickle of torch.distributed.checkpoint.metadata.Metadata. */
#include <string.h>

#include "base/pickle/pickle_write.h"
#include "ckpt/formats/dcp_impl.h"
#include "ckpt/formats/torch_impl.h"

static const char module[] = "torch.distributed.checkpoint.metadata";

/* Memo numbers of the values that the pickle refers to repeatedly. */
enum {
    TENSOR_METADATA,
    TENSOR_PROPERTIES,
    CHUNK_METADATA,
    BYTES_METADATA,
    METADATA_INDEX,
    STORAGE_INFO,
    SIZE,
    LAYOUT,
    MEMORY_FORMAT,
    FILES = 64 /* the name of file i is at FILES + i */
};

static tess_status memo_name(tess_buffer *out, uint32_t number, const char *from, const char *name)
{
    TESS_TRY(tess_pickle_put_name(out, from, name));
    TESS_TRY(tess_pickle_memoize(out, number));
    return tess_pickle_put(out, TESS_PICKLE_DROP);
}

/* Stores torch.strided and torch.contiguous_format in the memo. In a pickle they are results of calls. */
static tess_status memo_constants(tess_buffer *out)
{
    TESS_TRY(tess_pickle_put_name(out, "torch.serialization", "_get_layout"));
    TESS_TRY(tess_pickle_put(out, TESS_PICKLE_MARK));
    TESS_TRY(tess_pickle_put_text(out, "torch.strided", strlen("torch.strided")));
    TESS_TRY(tess_pickle_put(out, TESS_PICKLE_MAKE_TUPLE TESS_PICKLE_CALL));
    TESS_TRY(tess_pickle_memoize(out, LAYOUT));
    TESS_TRY(tess_pickle_put(out, TESS_PICKLE_DROP));
    TESS_TRY(tess_pickle_put_name(out, module, "_MEM_FORMAT_ENCODING"));
    TESS_TRY(tess_pickle_put(out, TESS_PICKLE_MARK));
    TESS_TRY(tess_pickle_put_int(out, 0));
    TESS_TRY(tess_pickle_put(out, TESS_PICKLE_MAKE_TUPLE TESS_PICKLE_CALL));
    TESS_TRY(tess_pickle_memoize(out, MEMORY_FORMAT));
    return tess_pickle_put(out, TESS_PICKLE_DROP);
}

static tess_status memo_all(const dcp_plan *plan, tess_buffer *out)
{
    static const char *const classes[] = {
        [TENSOR_METADATA] = "TensorStorageMetadata", [TENSOR_PROPERTIES] = "TensorProperties",
        [CHUNK_METADATA] = "ChunkStorageMetadata",   [BYTES_METADATA] = "BytesStorageMetadata",
        [METADATA_INDEX] = "MetadataIndex",
    };
    char name[64];
    for (uint32_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
        TESS_TRY(memo_name(out, i, module, classes[i]));
    TESS_TRY(memo_name(out, STORAGE_INFO, "torch.distributed.checkpoint.filesystem", "_StorageInfo"));
    TESS_TRY(memo_name(out, SIZE, "torch", "Size"));
    TESS_TRY(memo_constants(out));
    for (int file = 0; file < plan->n_files; file++) {
        dcp_file_name(file, name, sizeof(name));
        TESS_TRY(tess_pickle_put_text(out, name, strlen(name)));
        TESS_TRY(tess_pickle_memoize(out, FILES + (uint32_t)file));
        TESS_TRY(tess_pickle_put(out, TESS_PICKLE_DROP));
    }
    return TESS_OK;
}

static tess_status put_key(tess_buffer *out, const char *key)
{
    return tess_pickle_put_text(out, key, strlen(key));
}

static tess_status begin_object(tess_buffer *out, uint32_t class)
{
    TESS_TRY(tess_pickle_put_memoized(out, class));
    return tess_pickle_put(out, TESS_PICKLE_INSTANCE TESS_PICKLE_NEW_DICT);
}

static tess_status end_object(tess_buffer *out)
{
    return tess_pickle_put(out, TESS_PICKLE_FILL_DICT TESS_PICKLE_SET_STATE);
}

static tess_status put_size(tess_buffer *out, int n_dims, const int64_t *dim)
{
    TESS_TRY(tess_pickle_put_memoized(out, SIZE));
    TESS_TRY(tess_pickle_put(out, TESS_PICKLE_MARK TESS_PICKLE_MARK));
    for (int i = 0; i < n_dims; i++)
        TESS_TRY(tess_pickle_put_int(out, dim[i]));
    return tess_pickle_put(out, TESS_PICKLE_MAKE_TUPLE TESS_PICKLE_MAKE_TUPLE TESS_PICKLE_CALL);
}

/* Appends the properties: (dtype, layout, requires_grad, memory format, pinned). */
static tess_status put_properties(tess_buffer *out, const char *dtype)
{
    const torch_dtype *known = torch_find_dtype(TORCH_BY_CATALOG, dtype);
    TESS_CHECK(known != NULL, TESS_E_UNSUPPORTED, "PyTorch has no dtype for %s", dtype);
    TESS_TRY(tess_pickle_put_memoized(out, TENSOR_PROPERTIES));
    TESS_TRY(tess_pickle_put(out, TESS_PICKLE_INSTANCE TESS_PICKLE_MARK));
    TESS_TRY(tess_pickle_put_name(out, "torch", strchr(known->name, '.') + 1));
    TESS_TRY(tess_pickle_put_memoized(out, LAYOUT));
    TESS_TRY(tess_pickle_put(out, TESS_PICKLE_FALSE));
    TESS_TRY(tess_pickle_put_memoized(out, MEMORY_FORMAT));
    return tess_pickle_put(out, TESS_PICKLE_FALSE TESS_PICKLE_MAKE_TUPLE TESS_PICKLE_SET_STATE);
}

static tess_status put_tensor(const dcp_plan *plan, tess_buffer *out, const dcp_chunk *chunks, size_t n)
{
    const tess_export_tensor *tensor = &plan->out->tensors[chunks[0].tensor];
    TESS_TRY(put_key(out, tensor->name));
    TESS_TRY(begin_object(out, TENSOR_METADATA));
    TESS_TRY(put_key(out, "properties"));
    TESS_TRY_CTX(put_properties(out, tensor->dtype), "'%s'", tensor->name);
    TESS_TRY(put_key(out, "size"));
    TESS_TRY(put_size(out, tensor->n_dims, tensor->dim));
    TESS_TRY(put_key(out, "chunks"));
    TESS_TRY(tess_pickle_put(out, TESS_PICKLE_NEW_LIST));
    for (size_t i = 0; i < n; i++) {
        TESS_TRY(begin_object(out, CHUNK_METADATA));
        TESS_TRY(put_key(out, "offsets"));
        TESS_TRY(put_size(out, tensor->n_dims, chunks[i].box.begin));
        TESS_TRY(put_key(out, "sizes"));
        TESS_TRY(put_size(out, tensor->n_dims, chunks[i].box.size));
        TESS_TRY(end_object(out));
    }
    TESS_TRY(tess_pickle_put(out, TESS_PICKLE_FILL_LIST));
    return end_object(out);
}

/* Returns how many consecutive chunks, starting at `first`, belong to the same tensor. */
static size_t count_chunks(const dcp_plan *plan, size_t first)
{
    size_t n = 1;
    while (first + n < plan->n_chunks && plan->chunks[first + n].tensor == plan->chunks[first].tensor)
        n++;
    return n;
}

static tess_status put_descriptions(const dcp_plan *plan, tess_buffer *out)
{
    TESS_TRY(put_key(out, "state_dict_metadata"));
    TESS_TRY(tess_pickle_put(out, TESS_PICKLE_NEW_DICT));
    for (size_t i = 0, n; i < plan->n_chunks; i += n) {
        n = count_chunks(plan, i);
        TESS_TRY(put_tensor(plan, out, &plan->chunks[i], n));
    }
    for (size_t i = 0; i < plan->n_objects; i++) {
        TESS_TRY(put_key(out, plan->objects[i].name));
        TESS_TRY(tess_pickle_put_memoized(out, BYTES_METADATA));
        TESS_TRY(tess_pickle_put(out, TESS_PICKLE_INSTANCE));
    }
    return tess_pickle_put(out, TESS_PICKLE_FILL_DICT);
}

static tess_status put_path(tess_buffer *out, const char *name, const json_t *path)
{
    TESS_TRY(put_key(out, name));
    TESS_TRY(tess_pickle_put(out, TESS_PICKLE_MARK));
    for (size_t i = 0; i < json_array_size(path); i++)
        TESS_TRY(tess_pickle_put_json(out, json_array_get(path, i)));
    return tess_pickle_put(out, TESS_PICKLE_MAKE_TUPLE);
}

static tess_status put_paths(const dcp_plan *plan, tess_buffer *out)
{
    TESS_TRY(put_key(out, "planner_data"));
    TESS_TRY(tess_pickle_put(out, TESS_PICKLE_NEW_DICT));
    for (int i = 0; i < plan->out->n_tensors; i++) {
        const char *name = plan->out->tensors[i].name;
        json_t *path = dcp_plan_path(plan->out, name);
        tess_status status = put_path(out, name, path);
        json_decref(path);
        TESS_TRY(status);
    }
    for (size_t i = 0; i < plan->n_objects; i++)
        TESS_TRY(put_path(out, plan->objects[i].name, plan->objects[i].path));
    return tess_pickle_put(out, TESS_PICKLE_FILL_DICT);
}

/* Appends an entry MetadataIndex(name, begin of its box, number of its chunk): _StorageInfo(file, offset, length).
 * `box` NULL: the entry is an object. */
static tess_status put_place(tess_buffer *out, const char *name, int n_dims, const tess_box *box, int64_t index,
                             const dcp_place *place)
{
    TESS_TRY(begin_object(out, METADATA_INDEX));
    TESS_TRY(put_key(out, "fqn"));
    TESS_TRY(put_key(out, name));
    TESS_TRY(put_key(out, "index"));
    TESS_TRY(box != NULL ? tess_pickle_put_int(out, index) : tess_pickle_put(out, TESS_PICKLE_NIL));
    if (box != NULL) {
        TESS_TRY(put_key(out, "offset"));
        TESS_TRY(put_size(out, n_dims, box->begin));
    }
    TESS_TRY(end_object(out));
    TESS_TRY(begin_object(out, STORAGE_INFO));
    TESS_TRY(put_key(out, "relative_path"));
    TESS_TRY(tess_pickle_put_memoized(out, FILES + (uint32_t)place->file));
    TESS_TRY(put_key(out, "offset"));
    TESS_TRY(tess_pickle_put_int(out, (int64_t)place->offset));
    TESS_TRY(put_key(out, "length"));
    TESS_TRY(tess_pickle_put_int(out, (int64_t)place->length));
    return end_object(out);
}

static tess_status put_places(const dcp_plan *plan, tess_buffer *out)
{
    TESS_TRY(put_key(out, "storage_data"));
    TESS_TRY(tess_pickle_put(out, TESS_PICKLE_NEW_DICT));
    for (size_t i = 0, n; i < plan->n_chunks; i += n) {
        n = count_chunks(plan, i);
        for (size_t j = 0; j < n; j++) {
            const dcp_chunk *chunk = &plan->chunks[i + j];
            const tess_export_tensor *tensor = &plan->out->tensors[chunk->tensor];
            TESS_TRY(put_place(out, tensor->name, tensor->n_dims, &chunk->box, (int64_t)j, &chunk->place));
        }
    }
    for (size_t i = 0; i < plan->n_objects; i++)
        TESS_TRY(put_place(out, plan->objects[i].name, 0, NULL, 0, &plan->objects[i].place));
    return tess_pickle_put(out, TESS_PICKLE_FILL_DICT);
}

tess_status dcp_put_metadata(const dcp_plan *plan, tess_buffer *out)
{
    TESS_TRY(tess_pickle_put(out, TESS_PICKLE_BEGIN));
    TESS_TRY(memo_all(plan, out));
    TESS_TRY(tess_pickle_put_name(out, module, "Metadata"));
    TESS_TRY(tess_pickle_put(out, TESS_PICKLE_INSTANCE TESS_PICKLE_NEW_DICT));
    TESS_TRY(put_descriptions(plan, out));
    TESS_TRY(put_paths(plan, out));
    TESS_TRY(put_places(plan, out));
    TESS_TRY(end_object(out));
    return tess_pickle_put(out, TESS_PICKLE_STOP);
}
