/* Many ranks write one folder. The first rank creates every file at full size under a temporary name, with its header.
 * Each rank writes its own rows where the plan says. When all report success, the first rank syncs and renames. */
#include <stdio.h>
#include <string.h>

#include "base/core/rng.h"
#include "ckpt/ckpt_agree.h"
#include "base/os/os.h"
#include "ckpt/safetensors/safetensors_impl.h"

enum { PATH_SIZE = 4096 };

struct tess_st_writer {
    tess_mem *mem;
    tess_team *team;
    char *folder, *stem;
    tess_st_plan *plan;
    tess_st_tensor *tensors; /* with own copies of the names */
    char *names;
    bool first; /* this rank creates and renames the files */
    bool made_folder;
    int file, fd;    /* the file being written, -1: none */
    int64_t written; /* bytes by this rank */
};

static tess_status path_of(const tess_st_writer *w, const char *name, const char *suffix, char path[PATH_SIZE])
{
    char full[128];
    snprintf(full, sizeof(full), "%s%s", name, suffix);
    return tess_os_join(path, PATH_SIZE, w->folder, full);
}

static tess_status index_name(const tess_st_writer *w, char name[96])
{
    int n = snprintf(name, 96, "%s.safetensors.index.json", w->stem);
    TESS_CHECK(n > 0 && n < 96, TESS_E_INVALID, "file name too long: %s", w->stem);
    return TESS_OK;
}

static void destroy(tess_st_writer **writer)
{
    tess_st_writer *w = *writer;
    *writer = NULL;
    if (w == NULL)
        return;
    tess_os_close(&w->fd);
    tess_st_plan_destroy(w->mem, &w->plan);
    tess_mem_free(w->mem, w->tensors);
    tess_mem_free(w->mem, w->names);
    tess_mem_free(w->mem, w->folder);
    tess_mem_free(w->mem, w->stem);
    tess_mem_free(w->mem, w);
}

static tess_status copy_text(tess_mem *mem, const char *text, char **copy)
{
    size_t n = strlen(text) + 1;
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, n, "safetensors writer", (void **)copy));
    memcpy(*copy, text, n);
    return TESS_OK;
}

static tess_status copy_tensors(tess_st_writer *w, const tess_st_tensor *tensors, int n)
{
    size_t size = 0, at = 0;
    for (int i = 0; i < n; i++)
        size += strlen(tensors[i].name) + 1;
    TESS_TRY(tess_mem_alloc(w->mem, TESS_POOL_MISC, size, "names of tensors to write", (void **)&w->names));
    TESS_TRY(tess_mem_alloc_array(w->mem, TESS_POOL_MISC, (size_t)n, sizeof(w->tensors[0]), "tensors to write",
                                  (void **)&w->tensors));
    for (int i = 0; i < n; i++) {
        size_t length = strlen(tensors[i].name) + 1;
        w->tensors[i] = tensors[i];
        w->tensors[i].name = memcpy(w->names + at, tensors[i].name, length);
        at += length;
    }
    return TESS_OK;
}

static tess_status create(tess_mem *mem, tess_team *team, const char *folder, const char *stem,
                          const tess_st_tensor *tensors, int n_tensors, size_t shard_bytes, const char *description,
                          tess_st_writer **writer)
{
    tess_st_writer *w;
    tess_status status;
    *writer = NULL;
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(*w), "safetensors writer", (void **)&w));
    w->mem = mem;
    w->team = team;
    w->file = w->fd = -1;
    w->first = tess_ckpt_rank(team) == 0;
    TESS_GOTO(copy_text(mem, folder, &w->folder), failed);
    TESS_GOTO(copy_text(mem, stem, &w->stem), failed);
    TESS_GOTO(copy_tensors(w, tensors, n_tensors), failed);
    TESS_GOTO(tess_st_plan_create(mem, stem, w->tensors, n_tensors, shard_bytes, description, &w->plan), failed);
    *writer = w;
    return TESS_OK;
failed:
    destroy(&w);
    return status;
}

/* Creates a file of `size` bytes under its temporary name, beginning with `text`. */
static tess_status create_file(const tess_st_writer *w, const char *name, const tess_buffer *text, size_t size)
{
    char path[PATH_SIZE];
    int fd;
    TESS_TRY(path_of(w, name, ".tmp", path));
    TESS_TRY(tess_os_create(path, size));
    TESS_TRY(tess_os_open(path, &fd));
    tess_status status = tess_os_write_at(fd, 0, text->data, text->size, path);
    tess_os_close(&fd);
    return status;
}

static tess_status create_files(tess_st_writer *w)
{
    w->made_folder = !tess_os_is_dir(w->folder);
    TESS_TRY(tess_os_make_dirs(w->folder));
    for (int file = 0; file < w->plan->n_files; file++) {
        tess_buffer header = {.mem = w->mem};
        tess_status status = tess_st_plan_header(w->plan, w->tensors, file, &header);
        if (status == TESS_OK)
            status = create_file(w, w->plan->files[file].name, &header, w->plan->files[file].bytes);
        tess_buffer_free(&header);
        TESS_TRY(status);
    }
    if (w->plan->n_files == 1)
        return TESS_OK;
    char name[96];
    tess_buffer index = {.mem = w->mem};
    tess_status status = index_name(w, name);
    if (status == TESS_OK)
        status = tess_st_plan_index(w->mem, w->plan, w->tensors, &index);
    if (status == TESS_OK)
        status = create_file(w, name, &index, index.size);
    tess_buffer_free(&index);
    return status;
}

/* Removes the temporary files as far as possible, after a failure that is already reported. */
static void remove_files(tess_st_writer *w)
{
    char path[PATH_SIZE], name[96];
    for (int file = 0; file < w->plan->n_files; file++)
        if (path_of(w, w->plan->files[file].name, ".tmp", path) == TESS_OK)
            tess_os_remove(path);
    if (w->plan->n_files > 1 && index_name(w, name) == TESS_OK && path_of(w, name, ".tmp", path) == TESS_OK)
        tess_os_remove(path);
    if (w->made_folder)
        tess_os_remove_empty_dir(w->folder);
}

static uint64_t hash_tensors(const tess_st_writer *w)
{
    uint64_t hash = 1469598103934665603u;
    for (int i = 0; i < w->plan->n_entries; i++) {
        const tess_st_tensor *t = &w->tensors[i];
        hash = tess_hash_bytes(t->name, strlen(t->name) + 1, hash);
        hash = tess_hash_bytes(t->dtype_text, strlen(t->dtype_text), hash);
        hash = tess_hash_bytes(t->dim, (size_t)t->n_dims * sizeof(t->dim[0]), hash);
    }
    return tess_hash_bytes(&w->plan->n_files, sizeof(w->plan->n_files), hash);
}

/* `w` is what all ranks are about to write; NULL: creating it failed here. */
static tess_status begin(tess_team *team, tess_st_writer *w, tess_status status, tess_st_writer **writer)
{
    status = tess_team_agree(team, status);
    *writer = NULL;
    if (w == NULL)
        return status; /* on all ranks */
    if (status == TESS_OK)
        status = tess_ckpt_agree_same(team, hash_tensors(w), "names, dtypes or shapes");
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

tess_status tess_st_write_begin(tess_mem *mem, tess_team *team, const char *folder, const char *stem,
                                const tess_st_tensor *tensors, int n_tensors, size_t shard_bytes,
                                const char *description, tess_st_writer **writer)
{
    tess_st_writer *w;
    tess_status status = create(mem, team, folder, stem, tensors, n_tensors, shard_bytes, description, &w);
    return begin(team, w, status, writer);
}

const tess_st_plan *tess_st_writer_plan(const tess_st_writer *writer)
{
    return writer->plan;
}

static tess_status close_current(tess_st_writer *w)
{
    char path[PATH_SIZE];
    if (w->fd < 0)
        return TESS_OK;
    TESS_TRY(path_of(w, w->plan->files[w->file].name, ".tmp", path));
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
    if (w->file != place->file) {
        TESS_TRY(close_current(w));
        TESS_TRY(path_of(w, w->plan->files[place->file].name, ".tmp", path));
        TESS_TRY(tess_os_open(path, &w->fd));
        w->file = place->file;
    }
    TESS_TRY(path_of(w, w->plan->files[place->file].name, ".tmp", path));
    TESS_TRY(tess_os_write_at(w->fd, place->offset + begin, data, bytes, path));
    w->written += (int64_t)bytes;
    return TESS_OK;
}

/* A row that nobody wrote would read as zeros; one written twice hides it, but a plan of owners gives neither. */
static tess_status check_all_written(tess_st_writer *w)
{
    int64_t total = w->written;
    if (tess_ckpt_world(w->team) > 1)
        TESS_TRY(tess_all_reduce(w->team, &w->written, &total, 1, TESS_I64, TESS_SUM, NULL));
    TESS_CHECK((uint64_t)total == w->plan->bytes, TESS_E_INVALID,
               "%s: %lld of %llu bytes were written: some rows were left out, or came from two ranks", w->folder,
               (long long)total, (unsigned long long)w->plan->bytes);
    return TESS_OK;
}

static tess_status sync_file(const tess_st_writer *w, const char *name)
{
    char path[PATH_SIZE];
    int fd;
    TESS_TRY(path_of(w, name, ".tmp", path));
    TESS_TRY(tess_os_open(path, &fd));
    return tess_os_sync_close(&fd, path);
}

static tess_status show_file(const tess_st_writer *w, const char *name)
{
    char from[PATH_SIZE], to[PATH_SIZE];
    TESS_TRY(path_of(w, name, ".tmp", from));
    TESS_TRY(path_of(w, name, "", to));
    return tess_os_rename(from, to);
}

static bool is_shard_of(const char *name, const char *stem)
{
    size_t n = strlen(stem);
    int end = 0;
    if (strncmp(name, stem, n) != 0)
        return false;
    sscanf(name + n, "-%*[0-9]-of-%*[0-9].safetensors%n", &end);
    return end > 0 && name[n + (size_t)end] == '\0';
}

/* Removes weights of an earlier save with other shards, which a reader might prefer. */
static tess_status remove_stale(void *context, const char *name)
{
    const tess_st_writer *w = context;
    char path[PATH_SIZE], whole[96], index[96];
    snprintf(whole, sizeof(whole), "%s.safetensors", w->stem);
    TESS_TRY(index_name(w, index));
    bool sharded = w->plan->n_files > 1, mine = false;
    for (int file = 0; file < w->plan->n_files; file++)
        mine |= strcmp(name, w->plan->files[file].name) == 0;
    if (mine || (sharded && strcmp(name, index) == 0))
        return TESS_OK;
    if (strcmp(name, whole) != 0 && strcmp(name, index) != 0 && !is_shard_of(name, w->stem))
        return TESS_OK;
    TESS_TRY(path_of(w, name, "", path));
    tess_os_remove(path);
    return TESS_OK;
}

static tess_status show_files(tess_st_writer *w)
{
    char index[96];
    bool sharded = w->plan->n_files > 1;
    TESS_TRY(index_name(w, index));
    for (int file = 0; file < w->plan->n_files; file++)
        TESS_TRY(sync_file(w, w->plan->files[file].name));
    if (sharded)
        TESS_TRY(sync_file(w, index));
    for (int file = 0; file < w->plan->n_files; file++)
        TESS_TRY(show_file(w, w->plan->files[file].name));
    if (sharded)
        TESS_TRY(show_file(w, index));
    TESS_TRY(tess_os_fsync_dir(w->folder));
    return tess_os_list(w->folder, remove_stale, w);
}

tess_status tess_st_write_finish(tess_st_writer **writer, tess_status status)
{
    tess_st_writer *w = *writer;
    bool first = w->first;
    if (status == TESS_OK)
        status = close_current(w);
    status = tess_team_agree(w->team, status);
    if (status == TESS_OK)
        status = check_all_written(w);
    if (status == TESS_OK)
        status = tess_team_agree(w->team, first ? show_files(w) : TESS_OK);
    if (status != TESS_OK && first)
        remove_files(w);
    destroy(writer);
    return status;
}
