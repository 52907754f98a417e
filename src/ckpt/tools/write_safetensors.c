/* Writes safetensors from any checkpoint: one file, or a model folder with everything that a model needs in addition to
 * its weights. Counts NaN and infinite values meanwhile. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/text.h"
#include "base/core/flat.h"
#include "ckpt/safetensors/safetensors.h"
#include "ckpt/tools/rewrite_impl.h"

enum { SLICE_BYTES = 16 << 20, BLOCK = 1024 };

typedef struct weights {
    rewriting *r;
    tess_st_writer *writer;
    /* (n_tensors) in the order of the source's files, so that tensors in one shard are neighbours there */
    const tess_export_tensor **sources;
    tess_st_tensor *tensors; /* (n_tensors) the same tensors, as they are written */
    uint8_t *raw, *encoded;  /* (SLICE_BYTES) a slice in the source's dtype and in the new dtype */
    float *floats;           /* (SLICE_BYTES) a slice as float32 */
} weights;

/* ---- Values */
typedef struct specials {
    int64_t n_nan, n_inf;
} specials;

/* Counts NaN and infinite values in float32, which represents every value of the smaller dtypes. */
static void count_specials(const char *dtype, const uint8_t *data, int64_t n, specials *s)
{
    float x[BLOCK];
    bool is_double = strcmp(dtype, "F64") == 0;
    int64_t bytes = tess_st_dtype_bytes(dtype);
    for (int64_t at = 0, count; at < n && tess_st_dtype_is_float(dtype); at += count) {
        uint32_t n_nan = 0, n_inf = 0;
        count = n - at < BLOCK ? n - at : BLOCK;
        if (!is_double)
            tess_st_decode(dtype, data + at * bytes, count, x);
        for (int64_t i = 0; i < count && is_double; i++) {
            double value;
            memcpy(&value, data + (at + i) * bytes, sizeof(value));
            /* Zeroed if finite, because a finite double may be infinite in float32 */
            x[i] = isfinite(value) ? 0 : (float)value;
        }
        for (int64_t i = 0; i < count; i++) {
            uint32_t magnitude;
            memcpy(&magnitude, &x[i], sizeof(magnitude));
            magnitude &= 0x7fffffffu;
            n_nan += magnitude > 0x7f800000u;
            n_inf += magnitude == 0x7f800000u;
        }
        s->n_nan += n_nan;
        s->n_inf += n_inf;
    }
}

/* Reads a slice into w->encoded, in the dtype in which it is written. `before` counts the source's special values;
 * `after` counts those in the new dtype. */
static tess_status read_slice(weights *w, const tess_export_tensor *t, const tess_box *slice, int64_t n,
                              specials *before, specials *after)
{
    const char *from = t->source->dtype;
    bool changes = rewrite_changes(w->r, t->name), same = strcmp(from, t->dtype) == 0 && !changes;
    uint8_t *raw = same ? w->encoded : w->raw;
    TESS_TRY(tess_catalog_read(w->r->export->catalog, t->source, slice, raw));
    count_specials(from, raw, n, before);
    if (same)
        return TESS_OK;
    tess_st_decode(from, raw, n, w->floats);
    if (changes)
        TESS_TRY(w->r->options->change.apply(w->r->options->change.self, t->name, slice, w->floats));
    TESS_TRY(tess_st_encode(w->floats, n, tess_st_dtype_parse(t->dtype), w->encoded));
    count_specials(t->dtype, w->encoded, n, after);
    return TESS_OK;
}

static void report_specials(const rewriting *r, const tess_export_tensor *t, const specials *before,
                            const specials *after)
{
    bool same = strcmp(t->source->dtype, t->dtype) == 0;
    int64_t overflowed = same ? 0 : after->n_inf - before->n_inf;
    r->result->n_nan += (uint64_t)before->n_nan;
    r->result->n_inf += (uint64_t)before->n_inf;
    r->result->n_overflowed += (uint64_t)overflowed;
    if (before->n_nan + before->n_inf > 0)
        rewrite_report(r, "%s: tensor '%s' has %" PRId64 " NaN and %" PRId64 " infinite values",
                       tess_catalog_file_of(r->export->catalog, t->source), t->name, before->n_nan, before->n_inf);
    if (overflowed > 0)
        rewrite_report(r, "tensor '%s': %" PRId64 " values are too large for %s and became infinite", t->name,
                       overflowed, tess_dtype_name(tess_st_dtype_parse(t->dtype)));
}

static tess_status put_tensor(weights *w, int index)
{
    const tess_export_tensor *t = w->sources[index];
    specials before = {0}, after = {0};
    const tess_box whole = tess_catalog_whole(t->source);
    int widest = t->source->element_bytes > t->element_bytes ? t->source->element_bytes : t->element_bytes;
    int64_t n = tess_box_count(t->n_dims, &whole), most = SLICE_BYTES / (widest > 4 ? widest : 4);
    for (int64_t first = 0, taken; first < n; first += taken) {
        tess_box slice;
        taken = tess_flat_slice(t->n_dims, &whole, first, most, &slice);
        size_t bytes = (size_t)(taken * t->element_bytes), begin = (size_t)(first * t->element_bytes);
        TESS_TRY(read_slice(w, t, &slice, taken, &before, &after));
        TESS_TRY(tess_st_write_bytes(w->writer, index, begin, bytes, w->encoded));
        rewrite_progress(w->r, bytes);
    }
    report_specials(w->r, t, &before, &after);
    return TESS_OK;
}

/* ---- Tensors */
/* Lists the tensors. Exports for safetensors contain only tensors of the source. */
static tess_status list_tensors(weights *w)
{
    const tess_export *e = w->r->export;
    const tess_catalog *c = e->catalog;
    TESS_AUTO(tess_mem_drop) const tess_catalog_tensor **in_files = NULL;
    TESS_AUTO(tess_mem_drop) const tess_export_tensor **exported = NULL;
    int n = 0;
    TESS_TRY(TESS_NEW(w->r->mem, c->n_tensors, "order of tensors", &exported));
    for (int i = 0; i < e->n_tensors; i++)
        exported[e->tensors[i].source - c->tensors] = &e->tensors[i];
    TESS_TRY(tess_catalog_tensors_in_files(c, &in_files));
    for (int i = 0; i < c->n_tensors; i++) {
        const tess_export_tensor *t = exported[in_files[i] - c->tensors];
        if (t == NULL)
            continue;
        w->sources[n] = t;
        w->tensors[n] = (tess_st_tensor){.name = t->name, .n_dims = t->n_dims};
        snprintf(w->tensors[n].dtype_text, sizeof(w->tensors[n].dtype_text), "%s", t->dtype);
        memcpy(w->tensors[n++].dim, t->dim, sizeof(t->dim));
        if (w->r->options->weights_dtype != NULL && strchr("FC", t->dtype[0]) != NULL &&
            !tess_st_dtype_is_float(t->dtype))
            rewrite_report(w->r, "tensor '%s' stays %s", t->name, t->dtype);
    }
    return TESS_OK;
}

static tess_status put_tensors(weights *w)
{
    const tess_st_plan *plan = tess_st_writer_plan(w->writer);
    w->r->result->n_files = plan->n_files;
    for (int i = 0; i < plan->n_entries; i++)
        TESS_TRY(put_tensor(w, plan->order[i]));
    return TESS_OK;
}

/* Writes "<folder>/<stem>.safetensors", or shards of it. What the source says in addition to its tensors is stored in
 * the header. */
static tess_status write_files(weights *w, const char *folder, const char *stem, size_t shard_bytes)
{
    const tess_export *e = w->r->export;
    char *description = NULL;
    TESS_TRY(list_tensors(w));
    if (json_object_size(e->meta) > 0) {
        description = json_dumps(e->meta, JSON_COMPACT);
        TESS_CHECK(description != NULL, TESS_E_NOMEM, "%s: no memory for its metadata", e->catalog->path);
    }
    tess_status status = tess_st_write_begin(w->r->mem, NULL, folder, stem, w->tensors, e->n_tensors, shard_bytes,
                                             description, &w->writer);
    free(description);
    return status == TESS_OK ? tess_st_write_finish(&w->writer, put_tensors(w)) : status;
}

static tess_status write_weights(rewriting *r, const char *folder, const char *stem, size_t shard_bytes)
{
    weights w = {.r = r};
    size_t n = (size_t)r->export->n_tensors;
    TESS_AUTO(tess_scope_end) tess_scope own = {.mem = r->mem};
    TESS_TRY(TESS_NEW_IN(&own, n, "tensors", &w.sources));
    TESS_TRY(TESS_NEW_IN(&own, n, "tensors", &w.tensors));
    TESS_TRY(tess_scope_alloc(&own, TESS_POOL_MISC, SLICE_BYTES, 1, "values", (void **)&w.raw));
    TESS_TRY(tess_scope_alloc(&own, TESS_POOL_MISC, SLICE_BYTES, 1, "values", (void **)&w.floats));
    TESS_TRY(tess_scope_alloc(&own, TESS_POOL_MISC, SLICE_BYTES, 1, "values", (void **)&w.encoded));
    return write_files(&w, folder, stem, shard_bytes);
}

/* ---- One file */
tess_status rewrite_as_file(rewriting *r)
{
    char folder[TESS_REWRITE_PATH], stem[256];
    const char *slash = strrchr(r->out, '/'), *name = slash != NULL ? slash + 1 : r->out;
    size_t n = strlen(name), suffix = strlen(TESS_ST_SUFFIX);
    TESS_CHECK(n > suffix && tess_text_ends_with(name, TESS_ST_SUFFIX), TESS_E_INVALID,
               "%s: name a file that ends in " TESS_ST_SUFFIX, r->out);
    TESS_CHECK(n - suffix < 64 && strlen(r->out) < sizeof(folder), TESS_E_INVALID, "%s: the name is too long", r->out);
    snprintf(stem, sizeof(stem), "%.*s", (int)(n - suffix), name);
    snprintf(folder, sizeof(folder), "%.*s", slash > r->out ? (int)(slash - r->out) : 1, slash != NULL ? r->out : ".");
    snprintf(r->result->path, sizeof(r->result->path), "%s", r->out);
    return write_weights(r, folder, stem, SIZE_MAX);
}

/* ---- A model folder */
static tess_status refuse_name(void *folder, const char *name)
{
    return TESS_FAIL(TESS_E_INVALID, "%s already holds '%s': name a folder that is new or empty", (const char *)folder,
                     name);
}

/* Writes the folder under a temporary name, so that it appears complete or not at all. */
tess_status rewrite_as_model_folder(rewriting *r)
{
    char *path = r->result->path, temporary[sizeof(r->result->path) + 8], parent[sizeof(r->result->path)];
    size_t n = strlen(r->out);
    while (n > 1 && r->out[n - 1] == '/')
        n--;
    TESS_CHECK(n < sizeof(r->result->path), TESS_E_INVALID, "path too long: %.100s...", r->out);
    snprintf(path, sizeof(r->result->path), "%.*s", (int)n, r->out);
    snprintf(temporary, sizeof(temporary), "%s.tmp", path);
    TESS_TRY(tess_os_join(parent, sizeof(parent), path, ".."));
    if (tess_os_is_dir(path))
        TESS_TRY(tess_os_list(path, refuse_name, path));
    TESS_TRY(tess_os_remove_tree(temporary)); /* a killed process may have left it */
    tess_status status;
    TESS_GOTO(tess_os_make_dirs(temporary), written);
    TESS_GOTO(rewrite_assets(r, temporary), written);
    TESS_GOTO(write_weights(r, temporary, "model", r->options->shard_bytes), written);
    TESS_GOTO(tess_os_rename(temporary, path), written);
    status = tess_os_fsync_dir(parent);
written:
    if (status != TESS_OK)
        tess_os_remove_tree(temporary);
    return status;
}
