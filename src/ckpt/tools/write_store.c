/* Writes a Tessera checkpoint from any other checkpoint, as if n_files ranks had saved it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "base/core/flat.h"
#include "ckpt/store/part.h"
#include "ckpt/store/store_write.h"
#include "ckpt/tools/rewrite_impl.h"

enum { SLICE_BYTES = 16 << 20, MAX_FILES = 99999 };

typedef struct store_writer {
    rewriting *r;
    char dir[TESS_CKPT_PATH], folder[TESS_CKPT_PATH];
    int64_t step;
    int n_files;
    tess_store_piece *pieces; /* (number of tensors in the export) the rows in the current file */
    json_t *part;             /* description of the files written so far */
    uint8_t *slice;           /* (SLICE_BYTES) a slice of a tensor */
} store_writer;

/* Puts a box of the source into the sink, a slice at a time. */
static tess_status read_box(void *self, const tess_store_piece *p, const tess_box *box, tess_store_sink *sink)
{
    store_writer *w = self;
    const tess_export_tensor *t = &w->r->export->tensors[p - w->pieces];
    tess_box slice;
    int64_t n = tess_box_count(t->n_dims, box), most = SLICE_BYTES / t->element_bytes;
    for (int64_t first = 0, taken; first < n; first += taken) {
        taken = tess_flat_slice(t->n_dims, box, first, most, &slice);
        size_t bytes = (size_t)taken * (size_t)t->element_bytes;
        TESS_TRY(tess_export_read(w->r->export, t, &slice, w->slice));
        TESS_TRY(tess_store_put(sink, w->slice, bytes));
        rewrite_progress(w->r, bytes);
    }
    return TESS_OK;
}

/* Lists the rows of every tensor that are written to file `number`. */
static void describe_file(store_writer *w, int number)
{
    const tess_export *e = w->r->export;
    for (int i = 0; i < e->n_tensors; i++) {
        const tess_export_tensor *t = &e->tensors[i];
        tess_store_piece *p = &w->pieces[i];
        *p = (tess_store_piece){
            .name = t->name, .dtype = t->dtype, .n_dims = t->n_dims, .rank = number, .read = read_box, .self = w};
        memcpy(p->dim, t->dim, sizeof(p->dim));
        memcpy(p->box.size, t->dim, sizeof(p->dim));
        tess_shard_rows(t->n_dims > 0 ? t->dim[0] : 1, w->n_files, number, &p->box.begin[0], &p->box.size[0]);
    }
}

static tess_status write_file(store_writer *w, int number)
{
    char file[32];
    json_auto_t *part = NULL;
    snprintf(file, sizeof(file), "rank-%05d.data", number);
    describe_file(w, number);
    TESS_TRY(tess_store_write_part(w->r->mem, NULL, w->folder, file, w->pieces, w->r->export->n_tensors, &part));
    return tess_part_merge(w->part, part);
}

/* ---- The checkpoint */
/* Sets dir and step from "DIR" or "DIR/step-00000012", and the path of the result. */
static tess_status set_place(store_writer *w)
{
    char path[TESS_CKPT_PATH];
    int64_t named;
    w->step = w->r->result->step;
    TESS_TRY(tess_ckpt_split_path(w->r->out, w->dir, &named));
    TESS_CHECK(named < 0 || w->step < 0 || w->step == named, TESS_E_INVALID,
               "%s: the checkpoint is of step %" PRId64 ": name that, or the folder above alone", w->r->out, w->step);
    w->step = named >= 0 ? named : w->step;
    TESS_CHECK(w->step >= 0, TESS_E_INVALID,
               "%s does not say of which step it is, and a Tessera checkpoint is of one: say --step N", w->r->in);
    TESS_TRY(tess_ckpt_folder(w->dir, w->step, "", path));
    TESS_CHECK(!tess_os_is_dir(path), TESS_E_INVALID, "%s is there already: name another folder", path);
    snprintf(w->r->result->path, sizeof(w->r->result->path), "%s", path);
    return TESS_OK;
}

static tess_status write_all(store_writer *w)
{
    const json_t *all = w->r->export->meta, *meta = json_object_get(all, "meta");
    /* Metadata of a Tessera checkpoint stays the same, even if it was converted to other formats in between. */
    const tess_store_facts facts = {.meta = json_is_object(meta) ? meta : all, .world_size = w->n_files};
    TESS_TRY(tess_store_begin(NULL, w->dir, w->step, w->folder));
    tess_status status = tess_part_create(&w->part);
    for (int number = 0; number < w->n_files && status == TESS_OK; number++)
        status = write_file(w, number);
    if (status == TESS_OK)
        status = tess_store_commit(NULL, w->dir, w->step, &w->part, 1, &facts);
    return status == TESS_OK ? TESS_OK : tess_store_abandon(NULL, w->dir, w->step, status);
}

tess_status rewrite_as_store(rewriting *r)
{
    store_writer w = {.r = r, .n_files = r->options->n_files};
    const tess_catalog *source = r->export->catalog;
    for (int i = 0; i < source->n_pieces && r->options->n_files == 0; i++)
        w.n_files = source->pieces[i].rank >= w.n_files ? source->pieces[i].rank + 1 : w.n_files;
    if (r->options->n_files == 0) /* one file for each rank of the source */
        w.n_files = w.n_files < 1 ? 1 : w.n_files > MAX_FILES ? MAX_FILES : w.n_files;
    TESS_CHECK(w.n_files >= 1 && w.n_files <= MAX_FILES, TESS_E_INVALID, "%d data files: choose 1 to %d", w.n_files,
               MAX_FILES);
    TESS_TRY(set_place(&w));
    TESS_AUTO(tess_scope_end) tess_scope own = {.mem = r->mem};
    TESS_TRY(tess_scope_alloc(&own, TESS_POOL_MISC, SLICE_BYTES, 1, "rows to write", (void **)&w.slice));
    TESS_TRY(TESS_NEW_IN(&own, r->export->n_tensors, "rows to write", &w.pieces));
    tess_status status = write_all(&w);
    json_decref(w.part);
    return status;
}
