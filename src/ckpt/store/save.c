/* The path that all saves share: ranks save from the memory they train in, and the writer process saves from stages. */
#include <stdio.h>

#include "base/os/threads.h"
#include "ckpt/store/part.h"
#include "ckpt/store/read.h"
#include "ckpt/store/store_impl.h"

/* The outcome of writing one file. */
typedef struct file_outcome {
    json_t *part;
    tess_status status;
    char error[1024];
} file_outcome;

typedef struct store_save {
    tess_store_writer *w;
    char folder[TESS_CKPT_PATH];
    file_outcome *files; /* (n_files) */
    json_t *part;        /* the part that this writer wrote; on the first writer, later the merged parts of all */
} store_save;

/* ---- Own files ---- */
static void write_files(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const store_save *s = context;
    for (int64_t i = begin; i < end; i++) {
        char name[32];
        file_outcome *o = &s->files[i];
        const tess_store_file *f = &s->w->files[i];
        tess_store_options options = *s->w->options;
        options.io = f->io;
        snprintf(name, sizeof(name), "rank-%05d.data", f->rank);
        o->status = tess_store_write_part(s->w->mem, &options, s->folder, name, f->pieces, f->n, &o->part);
        if (o->status != TESS_OK)
            snprintf(o->error, sizeof(o->error), "%s", tess_error_message());
    }
}

static tess_status run_threads(store_save *s)
{
    tess_threads *threads;
    if (s->w->n_threads <= 1) {
        write_files(s, 0, s->w->n_files, 0);
        return TESS_OK;
    }
    TESS_TRY(tess_threads_create(s->w->mem, s->w->n_threads, &threads));
    tess_threads_run(threads, write_files, s, s->w->n_files, 1);
    tess_threads_destroy(&threads);
    return TESS_OK;
}

static tess_status write_own(store_save *s)
{
    tess_store_writer *w = s->w;
    const char *name;
    json_t *bytes;
    TESS_TRY(TESS_NEW(w->mem, w->n_files, "files of a save", &s->files));
    TESS_TRY(tess_part_create(&s->part));
    TESS_TRY(run_threads(s));
    for (int i = 0; i < w->n_files; i++) {
        TESS_CHECK(s->files[i].status == TESS_OK, s->files[i].status, "%s", s->files[i].error);
        TESS_TRY(tess_part_merge(s->part, s->files[i].part));
    }
    json_object_foreach (json_object_get(s->part, "files"), name, bytes)
        w->bytes += (uint64_t)json_integer_value(bytes);
    return w->reads_back ? tess_store_verify_part(w->mem, s->folder, s->part) : TESS_OK;
}

/* ---- The whole save ---- */
static tess_status begin(store_save *s)
{
    const tess_store_writer *w = s->w;
    tess_status status = w->first ? tess_store_begin(w->options->io, w->dir, w->step, s->folder)
                                  : tess_ckpt_folder(w->dir, w->step, TESS_CKPT_TEMPORARY, s->folder);
    return w->peers != NULL ? w->peers->begin(w->peers->self, s->folder, status) : status;
}

static tess_status agree(const tess_store_writer *w, tess_status status)
{
    return w->peers != NULL && w->peers->agree != NULL ? w->peers->agree(w->peers->self, status) : status;
}

static tess_status run(store_save *s)
{
    const tess_store_writer *w = s->w;
    const tess_io *io = w->options->io;
    TESS_TRY(begin(s));
    tess_status status = write_own(s);
    if (w->peers != NULL)
        status = w->peers->collect(w->peers->self, status, s->part);
    TESS_TRY(status);
    TESS_TRY(agree(w, w->first ? tess_store_seal(io, w->dir, w->step, &s->part, 1, &w->facts) : TESS_OK));
    return agree(w, w->first ? tess_store_show(io, w->dir, w->step) : TESS_OK);
}

tess_status tess_store_save(tess_store_writer *w)
{
    store_save s = {.w = w};
    w->bytes = 0;
    tess_status status = run(&s);
    if (status != TESS_OK && w->first)
        status = tess_store_abandon(w->options->io, w->dir, w->step, status);
    for (int i = 0; s.files != NULL && i < w->n_files; i++)
        json_decref(s.files[i].part);
    tess_mem_free(w->mem, s.files);
    json_decref(s.part);
    return status;
}
