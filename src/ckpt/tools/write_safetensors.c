/* Safetensors out of any other checkpoint: one file, or a model folder with what a model needs beside its weights. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "ckpt/formats/flat.h"
#include "ckpt/new_folder.h"
#include "ckpt/safetensors/safetensors.h"
#include "ckpt/tools/rewrite_impl.h"

enum { SLICE_BYTES = 16 << 20 };

#define SUFFIX ".safetensors"

static void describe(const tess_export *e, tess_st_tensor *tensors)
{
    for (int i = 0; i < e->n_tensors; i++) {
        const tess_export_tensor *t = &e->tensors[i];
        tensors[i] = (tess_st_tensor){.name = t->name, .n_dims = t->n_dims};
        snprintf(tensors[i].dtype_text, sizeof(tensors[i].dtype_text), "%s", t->dtype);
        memcpy(tensors[i].dim, t->dim, sizeof(tensors[i].dim));
    }
}

static tess_status put_tensor(rewriting *r, tess_st_writer *writer, int index, uint8_t *values)
{
    const tess_export_tensor *t = &r->export->tensors[index];
    tess_box slice, whole = {.begin = {0}};
    memcpy(whole.size, t->dim, sizeof(whole.size));
    int64_t n = tess_box_count(t->n_dims, &whole), most = SLICE_BYTES / t->element_bytes;
    for (int64_t first = 0, taken; first < n; first += taken) {
        taken = tess_flat_box(t->n_dims, t->dim, first, most, &slice);
        size_t bytes = (size_t)taken * (size_t)t->element_bytes, begin = (size_t)first * (size_t)t->element_bytes;
        TESS_TRY(tess_export_read(r->export, t, &slice, values));
        TESS_TRY(tess_st_write_bytes(writer, index, begin, bytes, values));
        rewrite_say(r, bytes);
    }
    return TESS_OK;
}

static tess_status put_tensors(rewriting *r, tess_st_writer *writer, uint8_t *values)
{
    const tess_st_plan *plan = tess_st_writer_plan(writer);
    for (int i = 0; i < plan->n_entries; i++)
        TESS_TRY(put_tensor(r, writer, plan->order[i], values));
    return TESS_OK;
}

/* What the source says beside its tensors, as JSON text; NULL: nothing. *text: free. */
static tess_status format_description(const tess_export *e, char **text)
{
    *text = NULL;
    if (json_object_size(e->meta) == 0)
        return TESS_OK;
    *text = json_dumps(e->meta, JSON_COMPACT);
    TESS_CHECK(*text != NULL, TESS_E_NOMEM, "%s: no memory for its metadata", e->catalog->path);
    return TESS_OK;
}

static tess_status begin(rewriting *r, const char *folder, const char *stem, size_t shard_bytes,
                         tess_st_writer **writer)
{
    const tess_export *e = r->export;
    tess_st_tensor *tensors;
    char *description;
    TESS_TRY(tess_mem_alloc_array(r->mem, TESS_POOL_MISC, (size_t)e->n_tensors, sizeof(tensors[0]), "tensors to write",
                                  (void **)&tensors));
    describe(e, tensors);
    tess_status status = format_description(e, &description);
    if (status == TESS_OK)
        status =
            tess_st_write_begin(r->mem, NULL, folder, stem, tensors, e->n_tensors, shard_bytes, description, writer);
    free(description);
    tess_mem_free(r->mem, tensors);
    return status;
}

/* "<folder>/<stem>.safetensors", or shards of it. */
static tess_status write_weights(rewriting *r, const char *folder, const char *stem, size_t shard_bytes)
{
    uint8_t *slice;
    tess_st_writer *writer;
    TESS_TRY(tess_mem_alloc(r->mem, TESS_POOL_MISC, SLICE_BYTES, "values to write", (void **)&slice));
    tess_status status = begin(r, folder, stem, shard_bytes, &writer);
    if (status == TESS_OK)
        status = tess_st_write_finish(&writer, put_tensors(r, writer, slice));
    tess_mem_free(r->mem, slice);
    return status;
}

/* ---- One file */
tess_status rewrite_as_file(rewriting *r)
{
    char folder[TESS_REWRITE_PATH];
    const char *slash = strrchr(r->out, '/'), *name = slash != NULL ? slash + 1 : r->out;
    size_t n = strlen(name), suffix = strlen(SUFFIX);
    TESS_CHECK(n > suffix && strcmp(name + n - suffix, SUFFIX) == 0, TESS_E_INVALID,
               "%s: name a file that ends in " SUFFIX, r->out);
    char stem[256];
    TESS_CHECK(n - suffix < 64 && strlen(r->out) < sizeof(folder), TESS_E_INVALID, "%s: the name is too long", r->out);
    snprintf(stem, sizeof(stem), "%.*s", (int)(n - suffix), name);
    snprintf(folder, sizeof(folder), "%.*s", slash > r->out ? (int)(slash - r->out) : 1, slash != NULL ? r->out : ".");
    snprintf(r->result->path, sizeof(r->result->path), "%s", r->out);
    return write_weights(r, folder, stem, SIZE_MAX);
}

/* ---- A model folder */
static tess_status build(rewriting *r, const char *folder)
{
    TESS_TRY(tess_os_make_dirs(folder));
    TESS_TRY(rewrite_assets(r, folder));
    return write_weights(r, folder, "model", r->options->shard_bytes);
}

tess_status rewrite_as_model_folder(rewriting *r)
{
    tess_new_folder folder;
    TESS_TRY(tess_new_folder_begin(r->out, &folder));
    snprintf(r->result->path, sizeof(r->result->path), "%s", folder.path);
    return tess_new_folder_end(&folder, build(r, folder.temporary));
}
