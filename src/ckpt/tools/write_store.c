/* A Tessera checkpoint out of any other, as if so many ranks had written it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/os/os.h"
#include "ckpt/store/part.h"
#include "ckpt/store/stream.h"
#include "ckpt/store/write.h"
#include "ckpt/tools/rewrite_impl.h"
#include "ckpt/tools/slices.h"

enum { SLICE_BYTES = 16 << 20, MAX_FILES = 99999 };

typedef struct store_writer {
    rewriting *r;
    char dir[TESS_CKPT_PATH], folder[TESS_CKPT_PATH];
    int64_t step;
    int n_files;
    json_t **parts; /* (n_files) */
    uint8_t *slice; /* (SLICE_BYTES) */
    store_stream stream;
} store_writer;

/* ---- One tensor */
/* A scalar is one row. */
static int64_t count_rows(const tess_export_tensor *t)
{
    return t->n_dims > 0 ? t->dim[0] : 1;
}

static int64_t bytes_of_row(const tess_export_tensor *t)
{
    int64_t bytes = t->element_bytes;
    for (int d = 1; d < t->n_dims; d++)
        bytes *= t->dim[d];
    return bytes;
}

static tess_box rows_of(const tess_export_tensor *t, int64_t begin, int64_t n)
{
    tess_box box = {.begin = {begin}};
    memcpy(box.size, t->dim, sizeof(box.size));
    box.size[0] = n;
    return box;
}

static tess_status put_piece(store_writer *w, const tess_export_tensor *t, tess_part_piece *piece)
{
    tess_slices s;
    XXH3_state_t sum;
    XXH3_64bits_reset(&sum);
    tess_box rows = rows_of(t, piece->row_begin, piece->n_rows);
    piece->offset = store_stream_position(&w->stream);
    tess_slices_begin(&s, t->n_dims, &rows, SLICE_BYTES / t->element_bytes);
    while (tess_slices_next(&s)) {
        size_t bytes = (size_t)s.n * (size_t)t->element_bytes;
        TESS_TRY(tess_export_read(w->r->export, t, &s.box, w->slice));
        XXH3_64bits_update(&sum, w->slice, bytes);
        TESS_TRY(store_stream_put(&w->stream, w->slice, bytes));
        rewrite_tell(w->r, bytes);
    }
    piece->xxh3 = XXH3_64bits_digest(&sum);
    piece->stored = piece->bytes = store_stream_position(&w->stream) - piece->offset;
    return store_stream_align(&w->stream);
}

/* The rows of a tensor that writer `number` has. */
static void rows_of_writer(const store_writer *w, const tess_export_tensor *t, int number, int64_t *begin, int64_t *n)
{
    tess_shard_rows(count_rows(t), w->n_files, number, begin, n);
}

static int64_t rows_of_piece(const tess_export_tensor *t)
{
    int64_t row_bytes = bytes_of_row(t);
    return row_bytes == 0 || row_bytes >= TESS_STORE_PIECE_BYTES ? 1 : TESS_STORE_PIECE_BYTES / row_bytes;
}

static tess_status put_tensor(store_writer *w, const tess_export_tensor *t, const char *file, int number)
{
    int64_t begin, n, most = rows_of_piece(t);
    json_t *part = w->parts[number];
    TESS_TRY(tess_part_add_tensor(part, t->name, t->dtype, t->n_dims, t->dim));
    rows_of_writer(w, t, number, &begin, &n);
    for (int64_t row = 0; row < n && bytes_of_row(t) > 0; row += most) {
        tess_part_piece piece = {.file = file, .rank = number, .row_begin = begin + row};
        piece.n_rows = n - row < most ? n - row : most;
        TESS_TRY(put_piece(w, t, &piece));
        TESS_TRY(tess_part_add_piece(part, t->name, t->n_dims, t->dim, &piece));
    }
    return TESS_OK;
}

/* ---- One file */
/* What the file can come to: pieces begin at multiples of a block. */
static uint64_t measure(const store_writer *w, int number)
{
    const tess_export *e = w->r->export;
    uint64_t bytes = 0;
    for (int i = 0; i < e->n_tensors; i++) {
        const tess_export_tensor *t = &e->tensors[i];
        int64_t begin, n, most = rows_of_piece(t);
        rows_of_writer(w, t, number, &begin, &n);
        if (bytes_of_row(t) == 0)
            continue;
        int64_t n_pieces = (n + most - 1) / most;
        bytes += (uint64_t)(n * bytes_of_row(t) + n_pieces * TESS_IO_BLOCK);
    }
    return bytes;
}

static tess_status put_tensors(store_writer *w, const char *file, int number)
{
    const tess_export *e = w->r->export;
    for (int i = 0; i < e->n_tensors; i++)
        TESS_TRY_CTX(put_tensor(w, &e->tensors[i], file, number), "tensor '%s'", e->tensors[i].name);
    TESS_TRY(store_stream_finish(&w->stream));
    return tess_part_add_file(w->parts[number], file, store_stream_position(&w->stream));
}

static tess_status write_file(store_writer *w, int number)
{
    char file[64], path[TESS_CKPT_PATH];
    snprintf(file, sizeof(file), "rank-%05d.data", number);
    TESS_TRY(tess_part_create(&w->parts[number]));
    TESS_TRY(tess_os_join(path, sizeof(path), w->folder, file));
    TESS_TRY(store_stream_open(w->r->mem, NULL, path, false, measure(w, number), &w->stream));
    tess_status status = put_tensors(w, file, number);
    store_stream_close(&w->stream);
    return status;
}

/* ---- The checkpoint */
/* "DIR" or "DIR/step-00000012". */
static tess_status place(store_writer *w)
{
    char path[TESS_CKPT_PATH], *end = "";
    const char *out = w->r->out, *slash;
    size_t n = strlen(out);
    while (n > 1 && out[n - 1] == '/')
        n--;
    TESS_CHECK(n < sizeof(w->dir), TESS_E_INVALID, "path too long: %.100s...", out);
    snprintf(w->dir, sizeof(w->dir), "%.*s", (int)n, out);
    slash = strrchr(w->dir, '/');
    const char *name = slash != NULL ? slash + 1 : w->dir;
    int64_t named = strncmp(name, "step-", 5) == 0 ? strtoll(name + 5, &end, 10) : -1;
    w->step = w->r->result->step;
    if (named >= 0 && *end == '\0') {
        TESS_CHECK(w->step < 0 || w->step == named, TESS_E_INVALID,
                   "%s: the checkpoint is of step %" PRId64 ": name that, or the folder above alone", out, w->step);
        w->step = named;
        if (slash == NULL)
            snprintf(w->dir, sizeof(w->dir), ".");
        else
            w->dir[slash > w->dir ? slash - w->dir : 1] = '\0';
    }
    TESS_CHECK(w->step >= 0, TESS_E_INVALID,
               "%s does not say of which step it is, and a Tessera checkpoint is of one: say --step N", w->r->in);
    TESS_TRY(tess_ckpt_folder(w->dir, w->step, "", path));
    TESS_CHECK(!tess_os_is_dir(path), TESS_E_INVALID, "%s is there already: name another folder", path);
    snprintf(w->r->result->path, sizeof(w->r->result->path), "%s", path);
    return TESS_OK;
}

static int ranks_of(const tess_catalog *catalog)
{
    int n = 1;
    for (int i = 0; i < catalog->n_pieces; i++)
        n = catalog->pieces[i].rank >= n ? catalog->pieces[i].rank + 1 : n;
    return n < MAX_FILES ? n : MAX_FILES;
}

/* The caller's object of a Tessera checkpoint goes on as it is, wherever it has been meanwhile. */
static tess_status commit(store_writer *w)
{
    const json_t *all = w->r->export->meta, *meta = json_object_get(all, "meta");
    const tess_store_facts facts = {.meta = json_is_object(meta) ? meta : all, .world_size = w->n_files};
    return tess_store_commit(NULL, w->dir, w->step, w->parts, w->n_files, &facts);
}

static tess_status write_all(store_writer *w)
{
    TESS_TRY(tess_store_begin(NULL, w->dir, w->step, w->folder));
    tess_status status = TESS_OK;
    for (int number = 0; number < w->n_files && status == TESS_OK; number++)
        status = write_file(w, number);
    if (status == TESS_OK)
        status = commit(w);
    return status == TESS_OK ? TESS_OK : tess_store_abandon(NULL, w->dir, w->step, status);
}

tess_status rewrite_as_store(rewriting *r)
{
    store_writer w = {.r = r, .n_files = r->options->n_files, .stream = {.fd = -1}};
    if (w.n_files == 0)
        w.n_files = ranks_of(r->export->catalog);
    TESS_CHECK(w.n_files >= 1 && w.n_files <= MAX_FILES, TESS_E_INVALID, "%d data files: choose 1 to %d", w.n_files,
               MAX_FILES);
    TESS_TRY(place(&w));
    TESS_TRY(tess_mem_alloc_array(r->mem, TESS_POOL_MISC, (size_t)w.n_files, sizeof(w.parts[0]), "parts",
                                  (void **)&w.parts));
    tess_status status = tess_mem_alloc(r->mem, TESS_POOL_MISC, SLICE_BYTES, "rows to write", (void **)&w.slice);
    if (status == TESS_OK)
        status = write_all(&w);
    for (int i = 0; i < w.n_files; i++)
        json_decref(w.parts[i]);
    tess_mem_free(r->mem, w.parts);
    tess_mem_free(r->mem, w.slice);
    return status;
}
