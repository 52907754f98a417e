/* Opens a safetensors file or Hugging Face folder as a catalog: every tensor is one piece without a checksum. A folder
 * contains one file, or an index and its shards. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/json.h"
#include "ckpt/formats/formats.h"
#include "ckpt/safetensors/safetensors_impl.h"

enum { PATH_SIZE = 4096 };

typedef struct opening {
    tess_catalog *catalog;
    tess_st_halves halves;
} opening;

static tess_status add_tensor(tess_catalog *c, const tess_st_tensor *t, int file)
{
    int tensor;
    tess_catalog_piece piece = {.file = file, .rank = -1, .offset = t->offset, .stored = t->bytes, .bytes = t->bytes};
    memcpy(piece.box.size, t->dim, sizeof(t->dim));
    TESS_CHECK(tess_st_dtype_bytes(t->dtype_text) > 0, TESS_E_UNSUPPORTED,
               "%s: tensor '%s' is %s, whose elements do not fill whole bytes: such tensors are not read",
               c->files[file].path, t->name, t->dtype_text);
    TESS_TRY(tess_catalog_add_tensor(c, t->name, t->dtype_text, t->n_dims, t->dim, &tensor));
    return tess_catalog_add_piece(c, tensor, &piece);
}

/* Adds the description of the source that `tessera convert` stored in the header. */
static tess_status add_description(tess_catalog *c, const tess_st_header *header)
{
    json_t *meta;
    const char *text = tess_st_metadata(header, TESS_ST_DESCRIPTION);
    if (text == NULL)
        return TESS_OK;
    TESS_TRY_CTX(tess_json_parse(text, strlen(text), "'" TESS_ST_DESCRIPTION "' of its __metadata__", true, &meta),
                 "%s", c->path);
    bool is_object = json_is_object(meta);
    int failed = is_object ? json_object_update(c->meta, meta) : 0;
    json_decref(meta);
    TESS_CHECK(is_object, TESS_E_FORMAT, "%s: '" TESS_ST_DESCRIPTION "' of its __metadata__ is no object", c->path);
    TESS_CHECK(failed == 0, TESS_E_NOMEM, "%s: no memory for its __metadata__", c->path);
    return TESS_OK;
}

/* Adds the tensors of a file. Of a shard, adds only those that the index lists. */
static tess_status add_tensors(opening *o, const tess_st_header *header, int file, const json_t *weight_map,
                               const char *shard)
{
    for (int i = 0; i < header->n_tensors; i++) {
        const tess_st_tensor *t = &header->tensors[i];
        const char *listed = json_string_value(json_object_get(weight_map, t->name));
        if (weight_map == NULL || (listed != NULL && strcmp(listed, shard) == 0))
            TESS_TRY(tess_st_is_half(t) ? tess_st_add_half(&o->halves, t, file) : add_tensor(o->catalog, t, file));
    }
    return file == 0 ? add_description(o->catalog, header) : TESS_OK;
}

static tess_status add_file(opening *o, const char *path, const json_t *weight_map, const char *shard)
{
    int file;
    TESS_AUTO(tess_os_unmap) tess_mapping mapping = {0};
    TESS_AUTO(tess_st_header_free) tess_st_header header = {0};
    TESS_TRY(tess_os_map(path, &mapping));
    TESS_TRY(tess_st_header_parse(o->catalog->mem, path, mapping.data, mapping.size, &header));
    TESS_TRY(tess_catalog_add_file(o->catalog, path, mapping.size, &file));
    return add_tensors(o, &header, file, weight_map, shard);
}

static int compare_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Lists and sorts the files that the weight map names. names (one entry for each tensor) gets a file once for each of
 * its tensors. */
static tess_status list_shards(const char *index, json_t *weight_map, const char **names)
{
    const char *tensor;
    json_t *value;
    size_t n = 0;
    json_object_foreach (weight_map, tensor, value) {
        const char *file = json_string_value(value);
        TESS_CHECK(file != NULL, TESS_E_FORMAT, "%s: weight_map: '%s': the name of a file expected", index, tensor);
        /* Shards must be next to their index: a path to another place is an attack or a mistake. */
        bool plain = file[0] != '\0' && strpbrk(file, "/\\") == NULL && strcmp(file, ".") != 0 &&
                     strcmp(file, "..") != 0 && strlen(file) < 256;
        TESS_CHECK(plain, TESS_E_FORMAT,
                   "%s: tensor '%s': shard '%.256s' is refused: it must be the plain name of a file in the same folder",
                   index, tensor, file);
        names[n++] = file;
    }
    if (n > 1)
        qsort(names, n, sizeof(names[0]), compare_text);
    return TESS_OK;
}

static tess_status add_shards(opening *o, const char *index, json_t *weight_map)
{
    TESS_AUTO(tess_mem_drop) const char **names = NULL;
    size_t n = json_object_size(weight_map);
    TESS_TRY(TESS_NEW(o->catalog->mem, n, "shard names", &names));
    TESS_TRY(list_shards(index, weight_map, names));
    for (size_t i = 0; i < n; i++) {
        char path[PATH_SIZE];
        if (i > 0 && strcmp(names[i], names[i - 1]) == 0)
            continue;
        TESS_TRY_CTX(tess_os_join(path, sizeof(path), o->catalog->path, names[i]), "%s", index);
        TESS_TRY_CTX(add_file(o, path, weight_map, names[i]), "%s", index);
    }
    return TESS_OK;
}

/* Checks that the shards contain every tensor of the index. */
static tess_status check_all_there(const opening *o, const char *index, json_t *weight_map)
{
    const char *tensor;
    json_t *file;
    json_object_foreach (weight_map, tensor, file)
        TESS_CHECK(tess_catalog_find(o->catalog, tensor) != NULL || tess_st_find_half(&o->halves, tensor) != NULL,
                   TESS_E_FORMAT,
                   "%s: tensor '%s' should be in %s but is not: the shards are not of this model, fetch them again",
                   index, tensor, json_string_value(file));
    return TESS_OK;
}

static tess_status finish(opening *o)
{
    TESS_TRY(tess_st_join_halves(&o->halves, o->catalog));
    for (size_t i = 0; i < o->halves.n; i++)
        if (!o->halves.list[i].joined)
            TESS_TRY(add_tensor(o->catalog, &o->halves.list[i].tensor, o->halves.list[i].file));
    return tess_catalog_finish(o->catalog);
}

static tess_status fill_from_index(opening *o, const char *path)
{
    json_auto_t *index = NULL;
    TESS_TRY(tess_json_load(path, TESS_ST_MAX_HEADER, &index));
    json_t *weight_map = json_object_get(index, "weight_map");
    TESS_CHECK(json_is_object(weight_map), TESS_E_FORMAT,
               "%s: no object 'weight_map': not the index of a sharded model", path);
    TESS_TRY(add_shards(o, path, weight_map));
    TESS_TRY(finish(o));
    return check_all_there(o, path, weight_map);
}

static tess_status fill(opening *o)
{
    char path[PATH_SIZE], index[PATH_SIZE];
    tess_catalog *c = o->catalog;
    bool folder = tess_os_is_dir(c->path);
    TESS_TRY(tess_os_join(path, sizeof(path), c->path, "model.safetensors"));
    TESS_TRY(tess_os_join(index, sizeof(index), c->path, "model.safetensors.index.json"));
    if (!folder || tess_os_is_file(path)) {
        TESS_TRY(add_file(o, folder ? path : c->path, NULL, NULL));
        return finish(o);
    }
    TESS_CHECK(tess_os_is_file(index), TESS_E_NOT_FOUND,
               "%s: neither model.safetensors nor model.safetensors.index.json is there", c->path);
    return fill_from_index(o, index);
}

tess_status tess_catalog_open_safetensors(tess_mem *mem, const char *path, tess_catalog **catalog)
{
    TESS_TRY(tess_catalog_create(mem, "safetensors", path, catalog));
    opening o = {.catalog = *catalog, .halves = {.scope = {.mem = mem}}};
    tess_status status = fill(&o);
    tess_scope_end(&o.halves.scope);
    if (status != TESS_OK)
        tess_catalog_destroy(catalog);
    return status;
}
