/* Copies the files of a checkpoint, and verifies a copy. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/store/copies_impl.h"
#include "ckpt/store/read.h"
#include "ckpt/store/store_impl.h"

enum { CHUNK_BYTES = 4 << 20, SYNC_BYTES = 256 << 20 };

void copy_name(int64_t step, char name[COPY_NAME])
{
    snprintf(name, COPY_NAME, "step-%08lld", (long long)step);
}

static int newest_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

void copy_sort(tess_ckpt_place_steps *steps)
{
    if (steps->n > 1)
        qsort(steps->step, (size_t)steps->n, sizeof(steps->step[0]), newest_first);
}

bool copy_is_aside(const char *dir, int64_t step)
{
    char path[TESS_CKPT_PATH];
    bool there = tess_ckpt_find(NULL, dir, step, path) == TESS_OK;
    bool aside = tess_ckpt_folder(dir, step, ".aside", path) == TESS_OK && tess_os_is_dir(path);
    tess_error_clear();
    return aside && !there;
}

static void on_progress(void *self, uint64_t done, uint64_t all)
{
    (void)done;
    (void)all;
    copy_apart_moves(self);
}

static tess_status verify(const char *folder, copy_apart *apart)
{
    const tess_catalog_visitor visitor = {.self = apart, .progress = on_progress};
    TESS_AUTO(tess_mem_destroy) tess_mem *mem = NULL;
    TESS_TRY(tess_mem_create(&mem));
    TESS_AUTO(tess_catalog_destroy) tess_catalog *catalog = NULL;
    TESS_TRY(tess_store_open(mem, folder, &catalog));
    return tess_catalog_verify(catalog, &visitor);
}

tess_status copy_verify(const char *folder, int64_t step, copy_apart *apart)
{
    json_t *manifest = NULL;
    TESS_TRY(tess_store_open_manifest(folder, TESS_STORE_ANY_STEP, &manifest));
    int64_t found = json_integer_value(json_object_get(manifest, "step"));
    json_decref(manifest);
    TESS_CHECK(found == step, TESS_E_FORMAT, "%s is the checkpoint of step %lld, not of step %lld", folder,
               (long long)found, (long long)step);
    return verify(folder, apart);
}

/* ---- Copying ---- */
/* The folders of a copy, while the names in the first are visited. */
typedef struct copy_job {
    const tess_io *io;
    const char *from, *to;
    copy_apart *apart;
    uint8_t *chunk;
} copy_job;

static tess_status copy_bytes(const copy_job *job, int in, int out, uint64_t size, const char *from, const char *to)
{
    for (uint64_t at = 0; at < size;) {
        size_t n = size - at < CHUNK_BYTES ? (size_t)(size - at) : CHUNK_BYTES;
        TESS_TRY(tess_os_read_at(in, at, job->chunk, n, from));
        TESS_TRY(tess_os_write_at(out, at, job->chunk, n, to));
        at += n;
        if (at % SYNC_BYTES == 0) /* a sync of a whole large file would take longer than a copy may stand still */
            TESS_TRY(tess_os_sync(out, to));
        copy_apart_moves(job->apart);
    }
    return TESS_OK;
}

/* Syncs the copy and drops it from the page cache: so reading it back reads the disk. */
static tess_status copy_file(const copy_job *job, const char *from, const char *to)
{
    TESS_AUTO(tess_os_close) int in = -1;
    uint64_t size;
    TESS_TRY(tess_os_open_read(from, &in, &size));
    int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (out < 0)
        return tess_os_error("create", to);
    tess_status status = copy_bytes(job, in, out, size, from, to);
    if (status == TESS_OK)
        status = tess_os_sync(out, to);
    if (status == TESS_OK)
        posix_fadvise(out, 0, 0, POSIX_FADV_DONTNEED);
    if (close(out) != 0 && status == TESS_OK)
        status = tess_os_error("close", to);
    return status;
}

static tess_status copy_one(const copy_job *job, const char *name)
{
    char from[TESS_CKPT_PATH], to[TESS_CKPT_PATH];
    tess_os_entry entry;
    TESS_TRY(tess_os_join(from, sizeof(from), job->from, name));
    TESS_TRY(tess_os_join(to, sizeof(to), job->to, name));
    TESS_TRY(tess_io_look_up(job->io, from, &entry));
    if (entry.kind != TESS_OS_FILE)
        return TESS_OK;
    copy_apart_moves(job->apart);
    return job->chunk != NULL ? copy_file(job, from, to) : tess_os_link(from, to);
}

static tess_status copy_unless_marker(void *self, const char *name)
{
    return strcmp(name, TESS_STORE_MARKER) == 0 ? TESS_OK : copy_one(self, name);
}

static tess_status copy_all(const copy_job *job)
{
    TESS_TRY(tess_io_list(job->io, job->from, copy_unless_marker, (void *)(uintptr_t)job));
    TESS_TRY(copy_one(job, TESS_STORE_MARKER));
    return job->chunk != NULL ? tess_os_fsync_dir(job->to) : TESS_OK;
}

tess_status copy_files(const tess_io *io, const char *from, const char *to, copy_apart *apart)
{
    copy_job job = {io, from, to, apart, malloc(CHUNK_BYTES)};
    TESS_CHECK(job.chunk != NULL, TESS_E_NOMEM, "no memory to copy %s", from);
    tess_status status = copy_all(&job);
    free(job.chunk);
    return status;
}

tess_status copy_link_files(const char *from, const char *to)
{
    const copy_job job = {.from = from, .to = to};
    TESS_TRY(tess_os_make_dirs(to));
    return copy_all(&job);
}
