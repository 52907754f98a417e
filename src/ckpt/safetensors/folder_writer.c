/* Lets many ranks write one folder. The first rank creates every file at full size under a temporary name, with its
 * header. Each rank writes its own part where the plan says. When all ranks report success, the first rank syncs and
 * renames the files. */
#include <stdio.h>
#include <string.h>

#include "base/core/flat.h"
#include "base/core/rng.h"
#include "base/os/os.h"
#include "comm/agree.h"
#include "ckpt/safetensors/safetensors_impl.h"

enum { PATH_SIZE = 4096 };

struct tess_st_writer {
    tess_mem *mem;
    tess_team *team;
    const char *folder, *stem;
    const tess_st_tensor *tensors;
    tess_st_plan *plan;
    bool first; /* true: this rank creates and renames the files */
    bool made_folder;
    int file, fd;    /* the file that is open, -1: none */
    int64_t written; /* number of bytes that this rank has written */
};

/* Counts the files of a save: its weights and, if there are several, the index. */
static int count_files(const tess_st_writer *w)
{
    return w->plan->n_files + (w->plan->n_files > 1);
}

static const char *name_of(const tess_st_writer *w, int file)
{
    return file < w->plan->n_files ? w->plan->files[file].name : w->plan->index;
}

static tess_status path_of(const tess_st_writer *w, const char *name, const char *suffix, char path[PATH_SIZE])
{
    char full[128];
    snprintf(full, sizeof(full), "%s%s", name, suffix);
    return tess_os_join(path, PATH_SIZE, w->folder, full);
}

static void destroy(tess_st_writer **writer)
{
    tess_st_writer *w = *writer;
    if (w == NULL)
        return;
    tess_os_close(&w->fd);
    tess_mem_drop(&w->plan);
    tess_mem_drop(writer);
}

/* ---- Begin */
/* Creates a file at full size under its temporary name, and writes its text at the beginning. */
static tess_status create_file(const tess_st_writer *w, int file)
{
    char path[PATH_SIZE];
    TESS_AUTO(tess_os_close) int fd = -1;
    TESS_AUTO(tess_buffer_free) tess_buffer text = {.mem = w->mem};
    bool index = file == w->plan->n_files;
    TESS_TRY(path_of(w, name_of(w, file), ".tmp", path));
    TESS_TRY(index ? tess_st_plan_index(w->mem, w->plan, w->tensors, &text)
                   : tess_st_plan_header(w->plan, w->tensors, file, &text));
    TESS_TRY(tess_os_create(path, index ? text.size : w->plan->files[file].bytes));
    TESS_TRY(tess_os_open(path, &fd));
    return tess_os_write_at(fd, 0, text.data, text.size, path);
}

static tess_status create_files(tess_st_writer *w)
{
    w->made_folder = !tess_os_is_dir(w->folder);
    TESS_TRY(tess_os_make_dirs(w->folder));
    for (int file = 0; file < count_files(w); file++)
        TESS_TRY(create_file(w, file));
    return TESS_OK;
}

/* Removes the temporary files as far as possible, after a failure that was already reported. */
static void remove_files(tess_st_writer *w)
{
    char path[PATH_SIZE];
    for (int file = 0; file < count_files(w); file++)
        if (path_of(w, name_of(w, file), ".tmp", path) == TESS_OK)
            tess_os_remove(path);
    if (w->made_folder)
        tess_os_remove_empty_dir(w->folder);
}

static uint64_t hash_tensors(const tess_st_writer *w)
{
    uint64_t hash = 0;
    for (int i = 0; i < w->plan->n_entries; i++) {
        const tess_st_tensor *t = &w->tensors[i];
        hash = tess_hash_bytes(t->name, strlen(t->name) + 1, hash);
        hash = tess_hash_bytes(t->dtype_text, strlen(t->dtype_text), hash);
        hash = tess_hash_bytes(t->dim, (size_t)t->n_dims * sizeof(t->dim[0]), hash);
    }
    return tess_hash_bytes(&w->plan->n_files, sizeof(w->plan->n_files), hash);
}

tess_status tess_st_write_begin(tess_mem *mem, tess_team *team, const char *folder, const char *stem,
                                const tess_st_tensor *tensors, int n_tensors, size_t shard_bytes,
                                const char *description, tess_st_writer **writer)
{
    tess_st_writer *w = NULL;
    tess_status status = TESS_NEW(mem, 1, "safetensors writer", &w);
    if (status == TESS_OK) {
        *w = (tess_st_writer){.mem = mem, .team = team, .folder = folder, .stem = stem, .tensors = tensors};
        w->file = w->fd = -1;
        w->first = tess_agree_rank(team) == 0;
        status = tess_st_plan_create(mem, stem, tensors, n_tensors, shard_bytes, description, &w->plan);
        if (status != TESS_OK)
            destroy(&w);
    }
    status = tess_team_agree(team, status);
    if (status == TESS_OK)
        status = tess_team_agree_same(team, hash_tensors(w), "names, dtypes or shapes");
    if (status == TESS_OK) {
        status = tess_team_agree(team, w->first ? create_files(w) : TESS_OK);
        if (status != TESS_OK && w->first)
            remove_files(w);
    }
    if (status != TESS_OK)
        destroy(&w);
    *writer = w;
    return status;
}

/* ---- Writing */
const tess_st_plan *tess_st_writer_plan(const tess_st_writer *writer)
{
    return writer->plan;
}

static tess_status close_current(tess_st_writer *w)
{
    char path[PATH_SIZE];
    if (w->fd < 0)
        return TESS_OK;
    TESS_TRY(path_of(w, name_of(w, w->file), ".tmp", path));
    w->file = -1;
    return tess_os_sync_close(&w->fd, path);
}

tess_status tess_st_write_bytes(tess_st_writer *w, int tensor, size_t begin, size_t bytes, const void *data)
{
    char path[PATH_SIZE];
    TESS_CHECK(tensor >= 0 && tensor < w->plan->n_entries, TESS_E_INVALID, "%s: no tensor %d", w->folder, tensor);
    const tess_st_place *place = &w->plan->places[tensor];
    TESS_CHECK(begin <= place->bytes && bytes <= place->bytes - begin, TESS_E_INVALID,
               "tensor '%s' has %zu bytes; [%zu, +%zu) to be written", w->tensors[tensor].name, place->bytes, begin,
               bytes);
    if (bytes == 0)
        return TESS_OK;
    TESS_TRY(path_of(w, name_of(w, place->file), ".tmp", path));
    if (w->file != place->file) {
        TESS_TRY(close_current(w));
        TESS_TRY(tess_os_open(path, &w->fd));
        w->file = place->file;
    }
    TESS_TRY(tess_os_write_at(w->fd, place->offset + begin, data, bytes, path));
    w->written += (int64_t)bytes;
    return TESS_OK;
}

tess_status tess_st_write_box(tess_st_writer *w, int tensor, const tess_box *box, int64_t first, int64_t count,
                              const void *data)
{
    TESS_CHECK(tensor >= 0 && tensor < w->plan->n_entries, TESS_E_INVALID, "%s: no tensor %d", w->folder, tensor);
    const tess_st_tensor *t = &w->tensors[tensor];
    tess_shape shape = {.n_dims = t->n_dims};
    memcpy(shape.dim, t->dim, sizeof(shape.dim));
    shape = tess_shape_atleast_1d(&shape);
    const tess_box whole = tess_box_whole(&shape);
    int64_t run = tess_flat_run(shape.n_dims, shape.dim, box->size), taken;
    size_t size = (size_t)tess_st_dtype_bytes(t->dtype_text);
    for (int64_t done = 0; done < count; done += taken) {
        int64_t skipped = (first + done) % run; /* elements of the run that are before the next element to write */
        tess_box slice;
        tess_flat_slice(shape.n_dims, box, first + done - skipped, run, &slice);
        taken = run - skipped < count - done ? run - skipped : count - done;
        size_t begin = (size_t)(tess_flat_offset(shape.n_dims, &whole, &slice) + skipped) * size;
        TESS_TRY(tess_st_write_bytes(w, tensor, begin, (size_t)taken * size, (const char *)data + (size_t)done * size));
    }
    return TESS_OK;
}

/* ---- Finish */
/* Checks that all bytes were written: missing ones would read as zeros. The check only counts bytes, which is enough
 * because each element has one owner. */
static tess_status check_all_written(tess_st_writer *w)
{
    int64_t total = w->written;
    if (tess_agree_world(w->team) > 1)
        TESS_TRY(tess_all_reduce(w->team, &w->written, &total, 1, TESS_I64, TESS_SUM, NULL));
    TESS_CHECK((uint64_t)total == w->plan->bytes, TESS_E_INVALID,
               "%s: %lld of %llu bytes were written: some rows were left out, or came from two ranks", w->folder,
               (long long)total, (unsigned long long)w->plan->bytes);
    return TESS_OK;
}

/* Removes weights of an earlier save with other shards, which a reader might use instead. */
static tess_status remove_stale(void *context, const char *name)
{
    const tess_st_writer *w = context;
    char path[PATH_SIZE];
    size_t n = strlen(w->stem);
    int end = 0;
    for (int file = 0; file < count_files(w); file++)
        if (strcmp(name, name_of(w, file)) == 0)
            return TESS_OK;
    if (strncmp(name, w->stem, n) != 0)
        return TESS_OK;
    sscanf(name + n, "-%*[0-9]-of-%*[0-9]" TESS_ST_SUFFIX "%n", &end);
    bool shard = end > 0 && name[n + (size_t)end] == '\0';
    if (!shard && strcmp(name + n, TESS_ST_SUFFIX) != 0 && strcmp(name, w->plan->index) != 0)
        return TESS_OK;
    TESS_TRY(path_of(w, name, "", path));
    tess_os_remove(path);
    return TESS_OK;
}

static tess_status show_files(tess_st_writer *w)
{
    char from[PATH_SIZE], to[PATH_SIZE];
    int fd;
    for (int file = 0; file < count_files(w); file++) {
        TESS_TRY(path_of(w, name_of(w, file), ".tmp", from));
        TESS_TRY(tess_os_open(from, &fd));
        TESS_TRY(tess_os_sync_close(&fd, from));
    }
    for (int file = 0; file < count_files(w); file++) {
        TESS_TRY(path_of(w, name_of(w, file), ".tmp", from));
        TESS_TRY(path_of(w, name_of(w, file), "", to));
        TESS_TRY(tess_os_rename(from, to));
    }
    TESS_TRY(tess_os_fsync_dir(w->folder));
    return tess_os_list(w->folder, remove_stale, w);
}

tess_status tess_st_write_finish(tess_st_writer **writer, tess_status status)
{
    tess_st_writer *w = *writer;
    if (status == TESS_OK)
        status = close_current(w);
    status = tess_team_agree(w->team, status);
    if (status == TESS_OK)
        status = check_all_written(w);
    if (status == TESS_OK)
        status = tess_team_agree(w->team, w->first ? show_files(w) : TESS_OK);
    if (status != TESS_OK && w->first)
        remove_files(w);
    destroy(writer);
    return status;
}
