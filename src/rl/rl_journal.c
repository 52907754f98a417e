/* The journal's files: records with a digest each. The last record may be cut off. */
#include "rl/rl_journal.h"

#define XXH_INLINE_ALL
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/mem/make_room.h"
#include "base/os/os.h"

static const char magic[8] = "TESSRL01";

typedef struct file_header {
    char magic[8];
    rl_origin origin;
} file_header;

typedef struct record_header {
    uint64_t bytes;
    int64_t round;
    uint64_t digest; /* digest of round and bytes */
} record_header;

struct rl_journal {
    tess_mem *mem;
    int fd;
    char path[1024];
    tess_buffer line;
};

uint64_t rl_chain(uint64_t chain, const void *bytes, size_t size)
{
    return XXH3_64bits_withSeed(bytes, size, chain);
}

static uint64_t digest(int64_t round, const void *bytes, size_t size)
{
    return XXH3_64bits_withSeed(bytes, size, (uint64_t)round);
}

static tess_status rollout_folder(const char *folder, int64_t rollout, char *path, size_t size)
{
    char name[40];
    snprintf(name, sizeof(name), "rollout-%08lld", (long long)rollout);
    return tess_os_join(path, size, folder, name);
}

static bool is_same(const rl_origin *written, const rl_origin *wanted)
{
    return written->identity == wanted->identity && written->chain == wanted->chain &&
           (wanted->weights == 0 || written->weights == wanted->weights);
}

size_t rl_journal_parse(const void *data, size_t size, const rl_origin *origin, rl_record_fn record, void *self,
                        tess_status *status)
{
    file_header header;
    const char *bytes = data;
    size_t at = sizeof(header);
    *status = TESS_OK;
    if (size < sizeof(header))
        return 0;
    memcpy(&header, bytes, sizeof(header));
    if (memcmp(header.magic, magic, sizeof(magic)) != 0 || !is_same(&header.origin, origin))
        return 0;
    while (size - at >= sizeof(record_header)) {
        record_header r;
        memcpy(&r, bytes + at, sizeof(r));
        if (r.bytes > size - at - sizeof(r) || digest(r.round, bytes + at + sizeof(r), (size_t)r.bytes) != r.digest)
            break;
        *status = record != NULL ? record(self, r.round, bytes + at + sizeof(r), (size_t)r.bytes) : TESS_OK;
        if (*status != TESS_OK)
            return at;
        at += sizeof(r) + (size_t)r.bytes;
    }
    return at;
}

/* Finds the place where appending continues: after the last complete record of this origin. */
static tess_status take_up(rl_journal *j, const rl_origin *origin)
{
    file_header header = {.origin = *origin};
    tess_mapping file = {0};
    tess_status status = TESS_OK;
    memcpy(header.magic, magic, sizeof(magic));
    TESS_TRY(tess_os_map(j->path, &file));
    size_t end = rl_journal_parse(file.data, file.size, origin, NULL, NULL, &status);
    tess_os_unmap(&file);
    if (ftruncate(j->fd, (off_t)end) != 0)
        return tess_os_error("shorten", j->path);
    return end > 0 ? TESS_OK : tess_os_append(j->fd, &header, sizeof(header), j->path);
}

tess_status rl_journal_open(tess_mem *mem, const char *folder, int64_t rollout, int rank, const rl_origin *origin,
                            rl_journal **out)
{
    TESS_AUTO(rl_journal_close) rl_journal *j = NULL;
    char path[1024], name[40];
    TESS_TRY(rollout_folder(folder, rollout, path, sizeof(path)));
    TESS_TRY(tess_os_make_dirs(path));
    TESS_TRY(TESS_NEW(mem, 1, "journal", &j));
    *j = (rl_journal){.mem = mem, .fd = -1, .line = {.mem = mem}};
    snprintf(name, sizeof(name), "rank-%05d.samples", rank);
    TESS_TRY(tess_os_join(j->path, sizeof(j->path), path, name));
    j->fd = open(j->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (j->fd < 0)
        return tess_os_error("create", j->path);
    TESS_TRY(take_up(j, origin));
    *out = TESS_GIVE(j);
    return TESS_OK;
}

void rl_journal_close(rl_journal **handle)
{
    rl_journal *j = *handle;
    if (j == NULL)
        return;
    tess_os_close(&j->fd);
    tess_buffer_free(&j->line);
    tess_mem_drop(handle);
}

/* ---- Writing ---- */
static tess_status begin_record(rl_journal *j)
{
    const record_header header = {.round = 0};
    j->line.size = 0;
    return tess_buffer_append(&j->line, &header, sizeof(header));
}

static tess_status end_record(rl_journal *j, int64_t round)
{
    record_header header = {.round = round, .bytes = j->line.size - sizeof(header)};
    header.digest = digest(round, j->line.data + sizeof(header), header.bytes);
    memcpy(j->line.data, &header, sizeof(header));
    return tess_os_append(j->fd, j->line.data, j->line.size, j->path);
}

tess_status rl_journal_append(rl_journal *j, int64_t round, const rl_sample *sample)
{
    TESS_TRY(begin_record(j));
    TESS_TRY(rl_sample_write(sample, &j->line));
    return end_record(j, round);
}

tess_status rl_journal_append_bytes(rl_journal *j, int64_t round, const void *bytes, size_t size)
{
    TESS_TRY(begin_record(j));
    TESS_TRY(tess_buffer_append(&j->line, bytes, size));
    return end_record(j, round);
}

/* ---- Reading ---- */
enum { MOST_FILES = 4096 };

typedef struct file_list {
    int n;
    char name[MOST_FILES][24];
} file_list;

static tess_status list_file(void *context, const char *name)
{
    file_list *list = context;
    int rank, end = 0;
    if (sscanf(name, "rank-%5d.samples%n", &rank, &end) == 1 && name[end] == '\0' && end > 0 && list->n < MOST_FILES)
        snprintf(list->name[list->n++], sizeof(list->name[0]), "%s", name);
    return TESS_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Calls `visit` for each file of the rollout. */
typedef tess_status (*file_visit_fn)(void *self, const char *folder, const char *name);
static tess_status visit_files(const char *folder, int64_t rollout, file_visit_fn visit, void *self)
{
    char path[1024];
    TESS_TRY(rollout_folder(folder, rollout, path, sizeof(path)));
    if (!tess_os_is_dir(path))
        return TESS_OK;
    TESS_AUTO(tess_malloc_drop) file_list *list = malloc(sizeof(*list));
    TESS_CHECK(list != NULL, TESS_E_NOMEM, "%s: no memory to list it", path);
    list->n = 0;
    TESS_TRY(tess_os_list(path, list_file, list));
    qsort(list->name, (size_t)list->n, sizeof(list->name[0]), by_name);
    for (int i = 0; i < list->n; i++)
        TESS_TRY(visit(self, path, list->name[i]));
    return TESS_OK;
}

typedef struct journal_reading {
    const rl_origin *origin;
    rl_record_fn record;
    void *self;
} journal_reading;

static tess_status read_file(void *self, const char *folder, const char *name)
{
    const journal_reading *r = self;
    char path[1024];
    tess_mapping file = {0};
    tess_status status = TESS_OK;
    TESS_TRY(tess_os_join(path, sizeof(path), folder, name));
    TESS_TRY(tess_os_map(path, &file));
    rl_journal_parse(file.data, file.size, r->origin, r->record, r->self, &status);
    tess_os_unmap(&file);
    return status == TESS_OK ? TESS_OK : tess_fail_context(status, "%s", path);
}

tess_status rl_journal_read(const char *folder, int64_t rollout, const rl_origin *origin, rl_record_fn record,
                            void *self)
{
    journal_reading r = {origin, record, self};
    return visit_files(folder, rollout, read_file, &r);
}

typedef struct newest_file {
    rl_origin origin;
    double changed_s; /* 0: none yet */
} newest_file;

static tess_status look_at_file(void *self, const char *folder, const char *name)
{
    newest_file *newest = self;
    char path[1024];
    file_header header;
    tess_mapping file = {0};
    TESS_TRY(tess_os_join(path, sizeof(path), folder, name));
    TESS_TRY(tess_os_map(path, &file));
    const double changed_s = tess_os_changed_s(path);
    const bool is_whole = file.size >= sizeof(header);
    if (is_whole)
        memcpy(&header, file.data, sizeof(header));
    tess_os_unmap(&file);
    if (is_whole && memcmp(header.magic, magic, sizeof(magic)) == 0 && changed_s > newest->changed_s)
        *newest = (newest_file){header.origin, changed_s};
    return TESS_OK;
}

tess_status rl_journal_newest(const char *folder, int64_t rollout, rl_origin *origin, bool *found)
{
    newest_file newest = {.changed_s = 0};
    TESS_TRY(visit_files(folder, rollout, look_at_file, &newest));
    *origin = newest.origin;
    *found = newest.changed_s > 0;
    return TESS_OK;
}

/* ---- Rollouts ---- */
typedef struct rollout_list {
    tess_mem *mem;
    int64_t *rollout;
    size_t n, room;
} rollout_list;

static bool is_rollout(const char *name, long long *rollout)
{
    int end = 0;
    return sscanf(name, "rollout-%lld%n", rollout, &end) == 1 && name[end] == '\0';
}

static tess_status list_rollout(void *context, const char *name)
{
    rollout_list *list = context;
    long long rollout;
    if (!is_rollout(name, &rollout))
        return TESS_OK;
    TESS_TRY(tess_mem_make_room(list->mem, TESS_POOL_MISC, list->n, sizeof(*list->rollout), "rollouts", &list->room,
                                &list->rollout));
    list->rollout[list->n++] = rollout;
    return TESS_OK;
}

static int by_number(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

tess_status rl_journal_rollouts(tess_mem *mem, const char *folder, int64_t **rollouts, size_t *n)
{
    rollout_list list = {.mem = mem};
    tess_status status = tess_os_list(folder, list_rollout, &list);
    if (list.n > 0)
        qsort(list.rollout, list.n, sizeof(*list.rollout), by_number);
    *rollouts = list.rollout;
    *n = list.n;
    return status;
}

/* ---- Pruning ---- */
typedef struct prune_task {
    const char *folder;
    int64_t oldest;
} prune_task;

static tess_status prune(void *context, const char *name)
{
    const prune_task *task = context;
    char path[1024];
    long long rollout;
    if (!is_rollout(name, &rollout) || rollout >= task->oldest)
        return TESS_OK;
    TESS_TRY(tess_os_join(path, sizeof(path), task->folder, name));
    return tess_os_remove_tree(path);
}

tess_status rl_journal_prune(const char *folder, int64_t oldest)
{
    prune_task task = {folder, oldest};
    return tess_os_is_dir(folder) ? tess_os_list(folder, prune, &task) : TESS_OK;
}
