/* Reads a manifest into a catalog. Nothing in the manifest is trusted: the disk may have damaged it, or it may come
 * from a stranger. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/json.h"
#include "ckpt/store/dims.h"
#include "ckpt/store/read.h"
#include "ckpt/store/store_write.h"

enum { PATH_SIZE = 4096, HEX_DIGITS = 16 };

typedef struct manifest_read {
    const char *folder;
    const json_t *files; /* {name: bytes} */
    tess_catalog *catalog;
    json_t *numbers; /* index of each file in the catalog, by name */
} manifest_read;

/* Reads a required number of bytes (0 or more). `of` names its owner in messages. */
static tess_status get_bytes(const json_t *object, const char *key, const char *of, uint64_t *value)
{
    int64_t number = -1;
    TESS_TRY(tess_json_get_int(object, key, of, &number));
    TESS_CHECK(number >= 0, TESS_E_FORMAT, "%s: '%s' is missing or negative", of, key);
    *value = (uint64_t)number;
    return TESS_OK;
}

/* Adds the files. They must be in the checkpoint's folder: a path to another place is an attack or a mistake. */
static tess_status add_files(manifest_read *r)
{
    const char *name;
    json_t *bytes;
    TESS_CHECK(json_is_object(r->files), TESS_E_FORMAT, "%s: the manifest has no object 'files'", r->folder);
    json_object_foreach ((json_t *)r->files, name, bytes) {
        char path[PATH_SIZE];
        int file;
        bool plain = name[0] != '\0' && strchr(name, '/') == NULL && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
        TESS_CHECK(plain, TESS_E_FORMAT, "%s: file '%.256s' is refused: it is not the plain name of a file there",
                   r->folder, name);
        TESS_CHECK(json_is_integer(bytes) && json_integer_value(bytes) >= 0, TESS_E_FORMAT,
                   "%s: file '%.256s': no size in bytes", r->folder, name);
        TESS_TRY(tess_os_join(path, sizeof(path), r->folder, name));
        TESS_TRY(tess_catalog_add_file(r->catalog, path, (uint64_t)json_integer_value(bytes), &file));
        TESS_CHECK(json_object_set_new(r->numbers, name, json_integer(file)) == 0, TESS_E_NOMEM,
                   "%s: no memory for its files", r->folder);
    }
    return TESS_OK;
}

static tess_status get_file(const manifest_read *r, const json_t *json, const char *of, int *file)
{
    const char *name = NULL;
    TESS_TRY(tess_json_get_string(json, "file", of, &name));
    const json_t *number = name == NULL ? NULL : json_object_get(r->numbers, name);
    TESS_CHECK(number != NULL, TESS_E_FORMAT, "%s: a piece is in file '%.256s', which the manifest does not list", of,
               name == NULL ? "" : name);
    *file = (int)json_integer_value(number);
    return TESS_OK;
}

static tess_status get_sum(const json_t *json, const char *of, uint64_t *sum)
{
    const char *text = NULL;
    TESS_TRY(tess_json_get_string(json, "xxh3", of, &text));
    TESS_CHECK(text != NULL && strlen(text) == HEX_DIGITS && strspn(text, "0123456789abcdef") == HEX_DIGITS,
               TESS_E_FORMAT, "%s: 'xxh3' of a piece is not of %d hexadecimal digits", of, HEX_DIGITS);
    *sum = strtoull(text, NULL, 16);
    return TESS_OK;
}

static tess_status get_codec(const json_t *json, const char *of, tess_codec *codec)
{
    const char *text = "";
    TESS_TRY(tess_json_get_string(json, "codec", of, &text));
    bool packed = strcmp(text, "zstd") == 0;
    TESS_CHECK(packed || strcmp(text, "none") == 0, TESS_E_FORMAT, "%s: a piece is packed by '%.32s': none or zstd", of,
               text);
    *codec = packed ? TESS_CODEC_ZSTD : TESS_CODEC_NONE;
    return TESS_OK;
}

static tess_status get_piece(const manifest_read *r, const json_t *json, const char *of, int n_dims,
                             tess_catalog_piece *piece)
{
    int n_begin, n_size;
    int64_t rank = -1;
    *piece = (tess_catalog_piece){.sum_kind = TESS_SUM_KIND_XXH3};
    TESS_CHECK(json_is_object(json), TESS_E_FORMAT, "%s: a piece that is no object", of);
    TESS_TRY(get_file(r, json, of, &piece->file));
    TESS_TRY(get_bytes(json, "offset", of, &piece->offset));
    TESS_TRY(get_bytes(json, "stored", of, &piece->stored));
    TESS_TRY(get_bytes(json, "bytes", of, &piece->bytes));
    TESS_TRY(get_sum(json, of, &piece->sum));
    TESS_TRY(get_codec(json, of, &piece->codec));
    TESS_TRY(tess_dims_from_json(json, "begin", of, piece->box.begin, &n_begin));
    TESS_TRY(tess_dims_from_json(json, "size", of, piece->box.size, &n_size));
    TESS_CHECK(n_begin == n_dims && n_size == n_begin, TESS_E_FORMAT, "%s: a piece of %d dimensions of a tensor of %d",
               of, n_begin, n_dims);
    TESS_TRY(tess_json_get_int(json, "rank", of, &rank));
    TESS_CHECK(rank >= -1 && rank <= INT32_MAX, TESS_E_FORMAT, "%s: a piece was written by no rank", of);
    piece->rank = (int)rank;
    return TESS_OK;
}

static tess_status add_tensor(manifest_read *r, const char *name, const json_t *json)
{
    char of[512];
    const char *dtype = "";
    int tensor, n_dims;
    int64_t dim[TESS_CATALOG_DIMS];
    snprintf(of, sizeof(of), "%.250s: tensor '%.200s'", r->folder, name);
    TESS_CHECK(json_is_object(json), TESS_E_FORMAT, "%s is no object", of);
    TESS_TRY(tess_json_get_string(json, "dtype", of, &dtype));
    TESS_TRY(tess_dims_from_json(json, "shape", of, dim, &n_dims));
    TESS_TRY(tess_catalog_add_tensor(r->catalog, name, dtype, n_dims, dim, &tensor));
    const json_t *pieces = json_object_get(json, "pieces");
    TESS_CHECK(json_is_array(pieces), TESS_E_FORMAT, "%s has no list 'pieces'", of);
    for (size_t i = 0; i < json_array_size(pieces); i++) {
        tess_catalog_piece piece;
        TESS_TRY(get_piece(r, json_array_get(pieces, i), of, n_dims, &piece));
        TESS_TRY(tess_catalog_add_piece(r->catalog, tensor, &piece));
    }
    return TESS_OK;
}

static tess_status add_tensors(manifest_read *r, const json_t *tensors)
{
    const char *name;
    json_t *tensor;
    TESS_CHECK(json_is_object(tensors), TESS_E_FORMAT, "%s: the manifest has no object 'tensors'", r->folder);
    json_object_foreach ((json_t *)tensors, name, tensor)
        TESS_TRY(add_tensor(r, name, tensor));
    return tess_catalog_finish(r->catalog);
}

static tess_status add_meta(manifest_read *r, const json_t *manifest)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)manifest, key, value) {
        if (strcmp(key, "files") == 0 || strcmp(key, "tensors") == 0)
            continue;
        TESS_CHECK(json_object_set(r->catalog->meta, key, value) == 0, TESS_E_NOMEM, "%s: no memory for its manifest",
                   r->folder);
    }
    return TESS_OK;
}

tess_status tess_store_catalog(tess_mem *mem, const char *folder, const json_t *manifest, tess_catalog **catalog)
{
    manifest_read r = {.folder = folder, .files = json_object_get(manifest, "files"), .numbers = json_object()};
    tess_status status = r.numbers == NULL ? TESS_FAIL(TESS_E_NOMEM, "%s: no memory for a catalog", folder)
                                           : tess_catalog_create(mem, "tessera", folder, &r.catalog);
    if (status == TESS_OK) {
        r.catalog->zero_padding = true;
        r.catalog->part = json_object_get(manifest, "host") != NULL;
        status = add_files(&r);
    }
    if (status == TESS_OK)
        status = add_meta(&r, manifest);
    if (status == TESS_OK)
        status = add_tensors(&r, json_object_get(manifest, "tensors"));
    json_decref(r.numbers);
    if (status != TESS_OK)
        tess_catalog_destroy(&r.catalog);
    *catalog = r.catalog;
    return status;
}

static tess_status open_folder(tess_mem *mem, const char *folder, int64_t step, tess_catalog **catalog)
{
    json_auto_t *manifest = NULL;
    *catalog = NULL;
    TESS_TRY(tess_store_open_manifest(folder, step, &manifest));
    return tess_store_catalog(mem, folder, manifest, catalog);
}

tess_status tess_store_open(tess_mem *mem, const char *folder, tess_catalog **catalog)
{
    char dir[TESS_CKPT_PATH];
    int64_t step; /* TESS_STORE_ANY_STEP: the name does not state a step */
    *catalog = NULL;
    TESS_TRY(tess_ckpt_split_path(folder, dir, &step));
    return open_folder(mem, folder, step, catalog);
}

tess_status tess_ckpt_verify_step(tess_mem *mem, const char *dir, int64_t step)
{
    TESS_AUTO(tess_catalog_destroy) tess_catalog *catalog = NULL;
    TESS_TRY(tess_ckpt_open_step(mem, dir, step, &catalog));
    return tess_catalog_verify(catalog, NULL);
}

tess_status tess_ckpt_open_step(tess_mem *mem, const char *dir, int64_t step, tess_catalog **catalog)
{
    char folder[TESS_CKPT_PATH];
    *catalog = NULL;
    TESS_TRY(tess_ckpt_find(NULL, dir, step, folder));
    return open_folder(mem, folder, step, catalog);
}
