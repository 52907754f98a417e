/* Parses .metadata of a distributed checkpoint (DCP). */
#include <stdlib.h>
#include <string.h>

#include "base/mem/scoped.h"
#include "ckpt/formats/dcp_impl.h"
#include "ckpt/formats/torch_impl.h"

/* ---- Dicts with many keys ---- */
static int by_name(const void *a, const void *b)
{
    return strcmp(((const dcp_key *)a)->name, ((const dcp_key *)b)->name);
}

static tess_status sort_keys(tess_mem *mem, const tess_pickle_value *dict, dcp_keys *keys)
{
    *keys = (dcp_keys){0};
    if (dict == NULL || dict->kind != TESS_PICKLE_DICT || dict->n == 0)
        return TESS_OK;
    TESS_TRY(TESS_NEW(mem, dict->n / 2, "keys of a checkpoint", &keys->keys));
    for (size_t i = 0; i + 1 < dict->n; i += 2) {
        const char *name = tess_pickle_text(dict->items[i]);
        if (name != NULL)
            keys->keys[keys->n++] = (dcp_key){name, dict->items[i + 1]};
    }
    qsort(keys->keys, keys->n, sizeof(dcp_key), by_name);
    return TESS_OK;
}

const tess_pickle_value *dcp_find(const dcp_keys *keys, const char *name)
{
    dcp_key key = {.name = name};
    dcp_key *found = keys->n == 0 ? NULL : bsearch(&key, keys->keys, keys->n, sizeof(key), by_name);
    return found == NULL ? NULL : found->value;
}

/* ---- Items ---- */
/* Whether a path leads out of the checkpoint's folder. */
static bool leads_out(const char *path)
{
    size_t n = strlen(path);
    return n == 0 || path[0] == '/' || strcmp(path, "..") == 0 || strncmp(path, "../", 3) == 0 ||
           strstr(path, "/../") != NULL || (n >= 3 && strcmp(path + n - 3, "/..") == 0);
}

/* Reads an entry MetadataIndex(name, index, begin of its box): _StorageInfo(file, offset, length). */
static tess_status read_item(const tess_pickle_value *index, const tess_pickle_value *info, dcp_item *item)
{
    int64_t offset = -1, length = -1;
    const tess_pickle_value *begin = torch_attribute(index, "offset");
    const tess_pickle_value *packed = torch_attribute(info, "transform_descriptors");
    *item = (dcp_item){.name = tess_pickle_text(torch_attribute(index, "fqn")),
                       .file = tess_pickle_text(torch_attribute(info, "relative_path"))};
    TESS_CHECK(item->name != NULL, TESS_E_FORMAT, "an item without a name");
    TESS_CHECK(item->file != NULL && torch_read_int(torch_attribute(info, "offset"), &offset) &&
                   torch_read_int(torch_attribute(info, "length"), &length) && offset >= 0 && length >= 0,
               TESS_E_FORMAT, "'%s': it does not say where it lies", item->name);
    TESS_CHECK(!leads_out(item->file), TESS_E_FORMAT, "'%s': a file outside of the checkpoint's folder: '%.200s'",
               item->name, item->file);
    TESS_CHECK(packed == NULL || packed->kind == TESS_PICKLE_NONE || packed->n == 0, TESS_E_UNSUPPORTED,
               "'%s' was transformed when it was written (compressed, or encrypted): save it without", item->name);
    item->offset = (uint64_t)offset;
    item->length = (uint64_t)length;
    if (begin != NULL && begin->kind != TESS_PICKLE_NONE)
        TESS_TRY_CTX(torch_read_ints(begin, item->begin, TESS_CATALOG_DIMS, &item->n_begin), "'%s'", item->name);
    return TESS_OK;
}

static int by_place(const void *a, const void *b)
{
    const dcp_item *x = a, *y = b;
    int order = strcmp(x->file, y->file);
    return order != 0 ? order : (x->offset > y->offset) - (x->offset < y->offset);
}

static tess_status read_items(dcp_metadata *metadata, const tess_pickle_value *storage)
{
    TESS_CHECK(storage != NULL && storage->kind == TESS_PICKLE_DICT, TESS_E_FORMAT,
               "it does not say where tensors lie (no storage_data)");
    TESS_TRY(TESS_NEW(metadata->mem, storage->n / 2, "items of a checkpoint", &metadata->items));
    for (size_t i = 0; i + 1 < storage->n; i += 2)
        TESS_TRY(read_item(storage->items[i], storage->items[i + 1], &metadata->items[metadata->n_items++]));
    if (metadata->n_items > 0)
        qsort(metadata->items, metadata->n_items, sizeof(dcp_item), by_place);
    return TESS_OK;
}

static tess_status read_all(dcp_metadata *metadata, const char *path, const void *data, size_t size)
{
    TESS_TRY(tess_pickle_parse(metadata->mem, data, size, path, NULL, &metadata->pickle));
    const tess_pickle_value *root = tess_pickle_root(metadata->pickle);
    TESS_CHECK(tess_pickle_is(root, DCP_MODULE "Metadata"), TESS_E_FORMAT,
               "%s: it is not a Metadata of torch.distributed.checkpoint", path);
    TESS_TRY(sort_keys(metadata->mem, torch_attribute(root, "state_dict_metadata"), &metadata->tensors));
    TESS_TRY(sort_keys(metadata->mem, torch_attribute(root, "planner_data"), &metadata->paths));
    TESS_TRY_CTX(read_items(metadata, torch_attribute(root, "storage_data")), "%s", path);
    return TESS_OK;
}

tess_status dcp_metadata_parse(tess_mem *mem, const char *path, const void *data, size_t size, dcp_metadata *metadata)
{
    *metadata = (dcp_metadata){.mem = mem};
    tess_status status = read_all(metadata, path, data, size);
    if (status != TESS_OK)
        dcp_metadata_free(metadata);
    return status;
}

void dcp_metadata_free(dcp_metadata *metadata)
{
    if (metadata->mem == NULL)
        return;
    tess_mem_free(metadata->mem, metadata->items);
    tess_mem_free(metadata->mem, metadata->tensors.keys);
    tess_mem_free(metadata->mem, metadata->paths.keys);
    tess_pickle_destroy(&metadata->pickle);
    *metadata = (dcp_metadata){0};
}

/* ---- Tensors ---- */
bool dcp_is_tensor(const tess_pickle_value *value)
{
    return tess_pickle_is(value, DCP_MODULE "TensorStorageMetadata");
}

/* Finds the dtype in TensorProperties: a tuple that begins with the dtype, or a dict in older releases. */
static const char *find_dtype(const tess_pickle_value *properties)
{
    if (properties == NULL || properties->kind != TESS_PICKLE_OBJECT || properties->object->state == NULL)
        return NULL;
    const tess_pickle_value *state = properties->object->state;
    const tess_pickle_value *dtype =
        state->kind == TESS_PICKLE_TUPLE ? tess_pickle_at(state, 0) : tess_pickle_get(state, "dtype");
    return dtype != NULL && dtype->kind == TESS_PICKLE_NAME ? dtype->text : NULL;
}

tess_status dcp_read_tensor(const tess_pickle_value *value, const char **dtype, int *n_dims, int64_t *dim)
{
    const char *name = find_dtype(torch_attribute(value, "properties"));
    TESS_CHECK(name != NULL, TESS_E_FORMAT, "it has no dtype");
    const torch_dtype *known = torch_find_dtype(TORCH_BY_NAME, name);
    TESS_CHECK(known != NULL, TESS_E_UNSUPPORTED, "elements of '%.100s'", name);
    *dtype = known->catalog;
    return torch_read_ints(torch_attribute(value, "size"), dim, TESS_CATALOG_DIMS, n_dims);
}
