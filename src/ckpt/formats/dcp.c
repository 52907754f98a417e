/* Opens PyTorch's distributed checkpoints (DCP) and Megatron's. */
#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"
#include "ckpt/formats/dcp_impl.h"
#include "ckpt/formats/export_impl.h"
#include "ckpt/formats/formats.h"
#include "ckpt/formats/torch_impl.h"

enum { PATH_SIZE = 4096, MAX_OBJECT = 1 << 20 };
static const size_t max_metadata = (size_t)2 << 30;

/* ---- Objects ---- */
/* Finds the object of meta that contains the last key of the path, and creates missing objects on the way. `last`
 * receives the last key. NULL: a value on the way is not an object. */
static json_t *find_place(json_t *meta, const tess_pickle_value *path, const char *name, char *last, size_t size)
{
    snprintf(last, size, "%s", name);
    for (size_t i = 0; path != NULL && path->kind == TESS_PICKLE_TUPLE && i < path->n && json_is_object(meta); i++) {
        if (!torch_key(path->items[i], last, size))
            return NULL;
        if (i + 1 == path->n)
            break;
        json_t *inner = json_object_get(meta, last);
        if (inner == NULL) {
            inner = json_object();
            json_object_set_new(meta, last, inner);
        }
        meta = inner;
    }
    return json_is_object(meta) ? meta : NULL;
}

/* ---- Tensors ---- */
/* Returns the rank in a name such as "__3_0.distcp"; -1: another kind of name. */
static int rank_of(const char *file)
{
    const char *slash = strrchr(file, '/'), *name = slash != NULL ? slash + 1 : file;
    char *end;
    if (strncmp(name, "__", 2) != 0 || name[2] < '0' || name[2] > '9')
        return -1;
    long rank = strtol(name + 2, &end, 10);
    return *end == '_' && rank < INT32_MAX ? (int)rank : -1;
}

static tess_status add_tensor(const torch_source *from, const tess_pickle_value *described, const dcp_item *item)
{
    torch_tensor part;
    tess_box box = {0};
    const char *dtype;
    int number, n_dims;
    int64_t dim[TESS_CATALOG_DIMS];
    TESS_TRY(dcp_read_tensor(described, &dtype, &n_dims, dim));
    TESS_TRY(torch_read_tensor(from->file, from->file->root, &part));
    TESS_CHECK(strcmp(part.dtype, dtype) == 0 && part.n_dims == n_dims, TESS_E_FORMAT,
               "%s in %d dimensions is stored here; .metadata says %s in %d", part.dtype, part.n_dims, dtype, n_dims);
    TESS_CHECK(item->n_begin == n_dims || item->n_begin == 0, TESS_E_FORMAT,
               "it begins at %d coordinates, and has %d dimensions", item->n_begin, n_dims);
    TESS_TRY(tess_catalog_add_tensor(from->catalog, item->name, dtype, n_dims, dim, &number));
    memcpy(box.begin, item->begin, sizeof(box.begin));
    memcpy(box.size, part.dim, sizeof(box.size));
    return torch_add_piece(from, &part, &box, number);
}

/* Adds all tensors, also those without any part: the catalog then reports them as missing. */
static tess_status add_names(tess_catalog *catalog, const dcp_metadata *metadata)
{
    const char *dtype;
    int tensor, n_dims;
    int64_t dim[TESS_CATALOG_DIMS];
    for (size_t i = 0; i < metadata->tensors.n; i++) {
        const dcp_key *key = &metadata->tensors.keys[i];
        if (!dcp_is_tensor(key->value))
            continue;
        TESS_TRY_CTX(dcp_read_tensor(key->value, &dtype, &n_dims, dim), "tensor '%s'", key->name);
        TESS_TRY(tess_catalog_add_tensor(catalog, key->name, dtype, n_dims, dim, &tensor));
    }
    return TESS_OK;
}

/* ---- Files ---- */
typedef struct dcp_reader {
    tess_catalog *catalog;
    const dcp_metadata *metadata;
    const char *path; /* path of the current file */
    tess_mapping mapping;
    int catalog_file;
    int left_meta;
} dcp_reader;

static void add_object(dcp_reader *reader, const dcp_item *item, const torch_file *file)
{
    char key[1024];
    const tess_pickle_value *keys = dcp_find(&reader->metadata->paths, item->name);
    json_t *place = find_place(reader->catalog->meta, keys, item->name, key, sizeof(key));
    if (place != NULL)
        json_object_set_new(place, key, torch_to_json(file->root, &reader->left_meta));
}

static tess_status read_item(dcp_reader *reader, const dcp_item *item)
{
    TESS_AUTO(torch_close) torch_file file = {0};
    const tess_pickle_value *described = dcp_find(&reader->metadata->tensors, item->name);
    size_t size = reader->mapping.size;
    TESS_CHECK(item->offset <= size && item->length <= size - item->offset, TESS_E_FORMAT,
               "it should end at byte %llu of a file of %zu: the file is cut off",
               (unsigned long long)(item->offset + item->length), size);
    if (!dcp_is_tensor(described) && item->length > MAX_OBJECT)
        return TESS_OK;
    TESS_TRY(torch_open_slice(reader->catalog->mem, reader->path, reader->mapping.data + item->offset, item->length,
                              item->offset, &file));
    const torch_source from = {reader->catalog, &file, reader->catalog_file, rank_of(item->file)};
    TESS_TRY(torch_add_ranges(&from));
    if (dcp_is_tensor(described))
        return add_tensor(&from, described, item);
    add_object(reader, item, &file);
    return TESS_OK;
}

/* Reads items [begin, end), which are all in one file. */
static tess_status read_file(dcp_reader *reader, const char *folder, size_t begin, size_t end)
{
    char path[PATH_SIZE];
    const dcp_item *items = reader->metadata->items;
    TESS_TRY(tess_os_join(path, sizeof(path), folder, items[begin].file));
    TESS_TRY_CTX(tess_os_map(path, &reader->mapping), "%s: its %zu items, '%s' the first, cannot be read", folder,
                 end - begin, items[begin].name);
    reader->path = path;
    tess_status status = tess_catalog_add_file(reader->catalog, path, reader->mapping.size, &reader->catalog_file);
    for (size_t i = begin; status == TESS_OK && i < end; i++) {
        status = read_item(reader, &items[i]);
        if (status != TESS_OK)
            tess_fail_context(status, "%s: '%s', bytes [%llu, +%llu)", path, items[i].name,
                              (unsigned long long)items[i].offset, (unsigned long long)items[i].length);
    }
    tess_os_unmap(&reader->mapping);
    return status;
}

static tess_status read_files(tess_catalog *catalog, const char *folder, const dcp_metadata *metadata)
{
    dcp_reader reader = {.catalog = catalog, .metadata = metadata, .left_meta = TORCH_META_VALUES};
    for (size_t begin = 0, end; begin < metadata->n_items; begin = end) {
        for (end = begin + 1;
             end < metadata->n_items && strcmp(metadata->items[begin].file, metadata->items[end].file) == 0;)
            end++;
        TESS_TRY(read_file(&reader, folder, begin, end));
    }
    return TESS_OK;
}

/* A walk through the paths of saved dicts: {"model": {...}} is saved as paths ("model", name). */
typedef struct dcp_dicts {
    const dcp_metadata *metadata;
    const tess_pickle_value *path; /* one of the paths that lead through the dicts entered so far */
} dcp_dicts;

static bool same_keys(const tess_pickle_value *a, const tess_pickle_value *b, int n)
{
    for (size_t i = 0; i < (size_t)n; i++) {
        const char *x = tess_pickle_text(tess_pickle_at(a, i)), *y = tess_pickle_text(tess_pickle_at(b, i));
        if (x == NULL || y == NULL || strcmp(x, y) != 0)
            return false;
    }
    return true;
}

static bool enter_dict(void *self, int depth, const char *key)
{
    dcp_dicts *dicts = self;
    for (size_t i = 0; i < dicts->metadata->paths.n; i++) {
        const tess_pickle_value *path = dicts->metadata->paths.keys[i].value;
        const char *text = tess_pickle_text(tess_pickle_at(path, (size_t)depth));
        if (text != NULL && strcmp(text, key) == 0 && path->n >= (size_t)depth + 2 &&
            same_keys(path, dicts->path, depth)) {
            dicts->path = path;
            return true;
        }
    }
    return false;
}

static tess_status read_folder(tess_catalog *catalog, const char *folder)
{
    char path[PATH_SIZE], *data;
    size_t size;
    dcp_metadata metadata;
    TESS_TRY(tess_os_join(path, sizeof(path), folder, DCP_METADATA));
    TESS_TRY(tess_os_read(catalog->mem, path, max_metadata, &data, &size));
    tess_status status = dcp_metadata_parse(catalog->mem, path, data, size, &metadata);
    tess_mem_free(catalog->mem, data);
    TESS_TRY(status);
    dcp_dicts dicts = {.metadata = &metadata};
    export_find_dicts(&dicts, enter_dict, path, sizeof(path));
    json_object_set_new(catalog->meta, "model_prefix", json_string(path));
    status = add_names(catalog, &metadata);
    if (status == TESS_OK)
        status = read_files(catalog, folder, &metadata);
    dcp_metadata_free(&metadata);
    return status;
}

tess_status tess_dcp_open(tess_mem *mem, const char *path, tess_catalog **catalog)
{
    char folder[PATH_SIZE];
    int64_t iteration = -1;
    *catalog = NULL;
    TESS_TRY(megatron_resolve(mem, path, folder, sizeof(folder), &iteration));
    TESS_TRY(tess_catalog_create(mem, "dcp", path, catalog));
    tess_status status = read_folder(*catalog, folder);
    if (status == TESS_OK)
        status = megatron_read_common(*catalog, folder, iteration);
    return formats_finish(catalog, status);
}

bool tess_dcp_is_at(const char *path)
{
    return tess_folder_holds(path, DCP_METADATA) || tess_folder_holds(path, MEGATRON_POINTER);
}
