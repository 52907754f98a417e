/* safetensors files as a catalog: every tensor is one piece, without a checksum. */
#include <string.h>

#include "base/os/os.h"
#include "base/text/json.h"
#include "ckpt/catalog/openers.h"
#include "ckpt/safetensors/safetensors_impl.h"

/* A reader's data is mapped: where it lies in its file follows from where the mapping begins. */
static const tess_st_reader *shard_of(const tess_st_reader *r, const tess_st_tensor *t)
{
    for (int i = 0; i < r->n_shards; i++)
        if (r->shards[i]->path == t->file)
            return r->shards[i];
    return r;
}

static tess_status add_tensor(tess_catalog *c, const tess_st_reader *r, const int *files, const tess_st_tensor *t)
{
    int tensor;
    const tess_st_reader *shard = shard_of(r, t);
    tess_catalog_piece piece = {.rank = -1, .stored = t->bytes, .bytes = t->bytes};
    piece.offset = (uint64_t)(t->data - shard->mapping.data);
    for (int i = 0; i < r->n_shards; i++)
        if (r->shards[i] == shard)
            piece.file = files[i];
    for (int d = 0; d < t->n_dims; d++)
        piece.box.size[d] = t->dim[d];
    TESS_TRY(tess_catalog_add_tensor(c, t->name, t->dtype_text, t->n_dims, t->dim, &tensor));
    return tess_catalog_add_piece(c, tensor, &piece);
}

static tess_status add_files(tess_catalog *c, const tess_st_reader *r, int *files)
{
    int file;
    if (r->n_shards == 0)
        return tess_catalog_add_file(c, r->path, r->mapping.size, &file);
    for (int i = 0; i < r->n_shards; i++)
        TESS_TRY(tess_catalog_add_file(c, r->shards[i]->path, r->shards[i]->mapping.size, &files[i]));
    return TESS_OK;
}

/* What `tessera convert` kept of the source. */
static tess_status add_description(tess_catalog *c, const tess_st_reader *r)
{
    json_t *meta;
    const char *text = tess_st_metadata(r, TESS_ST_DESCRIPTION);
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

static tess_status fill(tess_catalog *c, const tess_st_reader *r)
{
    int *files;
    TESS_TRY(tess_mem_alloc_array(c->mem, TESS_POOL_MISC, (size_t)r->n_shards, sizeof(files[0]), "shards of a model",
                                  (void **)&files));
    tess_status status = add_files(c, r, files);
    for (int i = 0; i < r->n_tensors && status == TESS_OK; i++)
        status = add_tensor(c, r, files, &r->tensors[i]);
    tess_mem_free(c->mem, files);
    if (status == TESS_OK)
        status = add_description(c, r);
    return status == TESS_OK ? tess_catalog_finish(c) : status;
}

tess_status tess_catalog_open_safetensors(tess_mem *mem, const char *path, tess_catalog **catalog)
{
    tess_st_reader *reader;
    TESS_TRY(tess_os_is_dir(path) ? tess_st_open_model(mem, path, &reader) : tess_st_open_file(mem, path, &reader));
    tess_status status = tess_catalog_create(mem, "safetensors", path, catalog);
    if (status == TESS_OK)
        status = fill(*catalog, reader);
    if (status != TESS_OK)
        tess_catalog_destroy(catalog);
    tess_st_close(&reader);
    return status;
}
