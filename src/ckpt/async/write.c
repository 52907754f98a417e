/* What is staged becomes a checkpoint: a file a rank, written by as many threads; then manifest, marker and name. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text/json.h"
#include "ckpt/async/async_impl.h"
#include "ckpt/store/part.h"
#include "ckpt/store/store.h"

enum { MOST_THREADS = 8 };

/* One rank's stage, on its way to a file. */
typedef struct stage {
    int rank;
    uint8_t *address;
    size_t mapped;
    json_t *text;
    char (*names)[TESS_STORE_NAME];
    tess_store_piece *pieces;
    int n;
    tess_io_faults faults;
    tess_io io;
    json_t *part; /* what was written of it */
    uint64_t bytes;
    tess_status status;
    char error[ASYNC_TEXT];
} stage;

typedef struct save {
    async_writer *writer;
    async_outcome *outcome;
    tess_mem *mem;
    stage *stages;
    int n;
    const json_t *request; /* in the first stage's text */
    const char *dir, *fault;
    int64_t step, codec, keep_latest_k, keep_from, job, world, host, fault_seed;
    bool direct, host_local;
    double host_wait_s;
    char folder[TESS_CKPT_PATH];
} save;

/* ---- What is asked for ---- */
static tess_status read_request(save *s)
{
    const json_t *r = s->request;
    const char *what = "request of a save";
    TESS_TRY(tess_json_get_string(r, "dir", what, &s->dir));
    TESS_TRY(tess_json_get_int(r, "step", what, &s->step));
    TESS_TRY(tess_json_get_int(r, "codec", what, &s->codec));
    TESS_TRY(tess_json_get_bool(r, "direct", what, &s->direct));
    TESS_TRY(tess_json_get_bool(r, "host_local", what, &s->host_local));
    TESS_TRY(tess_json_get_int(r, "keep_latest_k", what, &s->keep_latest_k));
    TESS_TRY(tess_json_get_int(r, "keep_from", what, &s->keep_from));
    TESS_TRY(tess_json_get_double(r, "host_wait_s", what, &s->host_wait_s));
    TESS_TRY(tess_json_get_int(r, "job", what, &s->job));
    TESS_TRY(tess_json_get_int(r, "world", what, &s->world));
    TESS_TRY(tess_json_get_int(r, "host", what, &s->host));
    TESS_TRY(tess_json_get_string(r, "fault", what, &s->fault));
    TESS_TRY(tess_json_get_int(r, "fault_seed", what, &s->fault_seed));
    TESS_CHECK(s->dir != NULL, TESS_E_FORMAT, "%s: no folder", what);
    return TESS_OK;
}

static tess_status read_pieces(tess_mem *mem, stage *st, uint64_t data_bytes)
{
    st->n = (int)json_array_size(json_object_get(st->text, "pieces"));
    TESS_TRY(tess_mem_alloc_array(mem, TESS_POOL_MISC, (size_t)st->n, sizeof(st->pieces[0]), "pieces of a save",
                                  (void **)&st->pieces));
    TESS_TRY(tess_mem_alloc_array(mem, TESS_POOL_MISC, (size_t)st->n, sizeof(st->names[0]), "names of a save",
                                  (void **)&st->names));
    for (int i = 0; i < st->n; i++) {
        async_piece p;
        TESS_TRY(async_request_piece(st->text, (size_t)i, data_bytes, &p));
        tess_store_tensor_name(p.kind, p.name, st->names[i]);
        st->pieces[i] = (tess_store_piece){.name = st->names[i],
                                           .stored = p.dtype,
                                           .given = p.dtype,
                                           .shape = p.shape,
                                           .row_begin = p.begin,
                                           .n_rows = p.rows,
                                           .rank = st->rank,
                                           .data = st->address + p.offset};
    }
    return TESS_OK;
}

static tess_status open_stage(const save *s, int i)
{
    stage *st = &s->stages[i];
    const async_slot *slot = &s->writer->area->header->slots[i];
    st->rank = slot->rank;
    st->mapped = slot->data_bytes + slot->text_bytes;
    TESS_TRY(async_area_map_stage(s->writer->area, i, st->mapped, &st->address));
    TESS_TRY(
        tess_json_parse((const char *)st->address + slot->data_bytes, slot->text_bytes, "stage", false, &st->text));
    return read_pieces(s->mem, st, slot->data_bytes);
}

static void close_stage(tess_mem *mem, stage *st)
{
    tess_mem_free(mem, st->pieces);
    tess_mem_free(mem, st->names);
    json_decref(st->part);
    json_decref(st->text);
    if (st->address != NULL)
        tess_os_unmap_shared(st->address, st->mapped);
}

/* Each stage is hit by the faults of its rank. */
static tess_status arm(save *s)
{
    async_writer *w = s->writer;
    if (w->faults == NULL && s->fault[0] != '\0') {
        TESS_TRY(tess_mem_alloc_array(w->mem, TESS_POOL_MISC, (size_t)s->n, sizeof(w->faults[0]), "faults",
                                      (void **)&w->faults));
        w->n_faults = s->n;
        const tess_fault_spec spec = {.text = s->fault, .seed = (uint64_t)s->fault_seed, .world = (int)s->world};
        for (int i = 0; i < s->n; i++)
            TESS_TRY(tess_faults_create(w->mem, &spec, s->stages[i].rank, 1, &w->faults[i]));
    }
    for (int i = 0; i < s->n; i++) {
        stage *st = &s->stages[i];
        st->faults = (tess_io_faults){.faults = i < w->n_faults ? w->faults[i] : NULL, .step = s->step};
        st->io = tess_io_with_faults(&st->faults);
    }
    return TESS_OK;
}

static tess_status open_all(save *s)
{
    for (int i = 0; i < s->n; i++)
        TESS_TRY(open_stage(s, i));
    s->request = json_object_get(s->stages[0].text, "request");
    TESS_TRY(read_request(s));
    return arm(s);
}

/* ---- Files ---- */
static tess_status write_stage(const save *s, stage *st)
{
    char file[32];
    tess_store_options options = {.codec = (tess_codec)s->codec, .direct = s->direct, .io = &st->io};
    snprintf(file, sizeof(file), "rank-%05d.data", st->rank);
    TESS_TRY(tess_store_write_part(s->mem, &options, s->folder, file, st->pieces, st->n, &st->part));
    const char *name;
    json_t *bytes;
    json_object_foreach (json_object_get(st->part, "files"), name, bytes)
        st->bytes += (uint64_t)json_integer_value(bytes);
    return TESS_OK;
}

static void write_stages(void *context, int64_t begin, int64_t end, int worker)
{
    const save *s = context;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        stage *st = &s->stages[i];
        st->status = write_stage(s, st);
        if (st->status != TESS_OK)
            snprintf(st->error, sizeof(st->error), "%s", tess_error_message());
    }
}

static tess_status write_files(save *s)
{
    tess_threads *threads;
    int n = s->n < tess_os_cores() ? s->n : tess_os_cores();
    TESS_TRY(tess_threads_create(s->mem, n < MOST_THREADS ? n : MOST_THREADS, &threads));
    tess_threads_run(threads, write_stages, s, s->n, 1);
    tess_threads_destroy(&threads);
    for (int i = 0; i < s->n; i++)
        TESS_CHECK(s->stages[i].status == TESS_OK, s->stages[i].status, "%s", s->stages[i].error);
    return TESS_OK;
}

/* ---- Together ---- */
static async_meeting meeting_of(const save *s)
{
    return (async_meeting){.folder = s->folder,
                           .job = (uint64_t)s->job,
                           .generation = atomic_load(&s->writer->area->header->generation),
                           .host = (int)s->host,
                           .n_hosts = (int)json_array_size(json_object_get(s->request, "hosts")),
                           .wait_s = s->host_wait_s};
}

/* Whose ranks' files of this host are: the same names and ranks as tess_ckpt_hosts has them. */
static tess_status name_hosts(const save *s, tess_ckpt_hosts *hosts)
{
    const json_t *list = json_object_get(s->request, "hosts");
    size_t n = json_array_size(list);
    *hosts = (tess_ckpt_hosts){.mem = s->mem, .n = (int)n, .host = (int)s->host};
#define ARRAY(field) \
    tess_mem_alloc_array(s->mem, TESS_POOL_MISC, n, sizeof(hosts->field[0]), "hosts", (void **)&hosts->field)
    TESS_TRY(ARRAY(first));
    TESS_TRY(ARRAY(last));
    TESS_TRY(ARRAY(names));
#undef ARRAY
    for (size_t i = 0; i < n; i++) {
        const json_t *host = json_array_get(list, i);
        hosts->first[i] = (int)json_integer_value(json_object_get(host, "first"));
        hosts->last[i] = (int)json_integer_value(json_object_get(host, "last"));
        snprintf(hosts->names[i], TESS_CKPT_HOST_NAME, "%s", json_string_value(json_object_get(host, "name")));
    }
    return TESS_OK;
}

static void forget_hosts(tess_ckpt_hosts *hosts)
{
    tess_mem_free(hosts->mem, hosts->first);
    tess_mem_free(hosts->mem, hosts->last);
    tess_mem_free(hosts->mem, hosts->names);
}

/* A writer that began before this one's folder was made anew has written to files that are gone. */
static tess_status check_files(const save *s, const json_t *part)
{
    const char *name;
    json_t *bytes;
    json_object_foreach (json_object_get((json_t *)part, "files"), name, bytes) {
        char path[TESS_CKPT_PATH];
        uint64_t size;
        TESS_TRY(tess_os_join(path, sizeof(path), s->folder, name));
        TESS_TRY(tess_os_file_size(path, &size));
        TESS_CHECK(size == (uint64_t)json_integer_value(bytes), TESS_E_IO, "%s has %llu bytes; %lld were written", path,
                   (unsigned long long)size, (long long)json_integer_value(bytes));
    }
    return TESS_OK;
}

/* The parts that this writer commits: its own, and in a folder of all hosts those of the others. */
static tess_status gather_parts(const save *s, const async_meeting *m, json_t **parts, int *n)
{
    for (int i = 0; i < s->n; i++)
        parts[(*n)++] = json_incref(s->stages[i].part);
    for (int host = 1; host < m->n_hosts && !s->host_local; host++) {
        TESS_TRY(async_meeting_take_part(m, host, &parts[*n]));
        TESS_TRY(check_files(s, parts[(*n)++]));
    }
    async_meeting_close(m);
    return TESS_OK;
}

static tess_status commit(const save *s, const async_meeting *m, json_t **parts)
{
    int n = 0;
    tess_ckpt_hosts hosts = {.mem = s->mem};
    tess_store_facts facts = {.meta = json_object_get(s->request, "meta"), .world_size = (int)s->world};
    tess_status status = gather_parts(s, m, parts, &n);
    if (status == TESS_OK && s->host_local && m->n_hosts > 1) {
        status = name_hosts(s, &hosts);
        facts.hosts = &hosts;
    }
    if (status == TESS_OK)
        status = tess_store_commit(&s->stages[0].io, s->dir, s->step, parts, n, &facts);
    for (int i = 0; i < n; i++)
        json_decref(parts[i]);
    forget_hosts(&hosts);
    return status;
}

/* Writers of several hosts make one checkpoint: each reads back what it wrote, so that the first does not have to read
 * the work of all while the next save waits for it. Only what may make older ones go is read. */
static bool shares_reading(const save *s, const async_meeting *m)
{
    return m->n_hosts > 1 && !s->host_local && s->keep_latest_k > 0;
}

static tess_status merge_own(const save *s, json_t **whole)
{
    TESS_TRY(tess_part_create(whole));
    for (int i = 0; i < s->n; i++)
        TESS_TRY(tess_part_merge(*whole, s->stages[i].part));
    return TESS_OK;
}

static tess_status write_and_read(save *s, const async_meeting *m, json_t **whole)
{
    *whole = NULL;
    TESS_TRY(write_files(s));
    TESS_TRY(merge_own(s, whole));
    return shares_reading(s, m) ? async_read_back(s->mem, s->folder, *whole) : TESS_OK;
}

/* A writer whose owner has ended may not be the only one that looks after this folder. */
static tess_status prune(const save *s, const async_meeting *m)
{
    const async_retention r = {.mem = s->mem,
                               .io = &s->stages[0].io,
                               .findings = &s->writer->findings,
                               .outcome = s->outcome,
                               .dir = s->dir,
                               .step = s->step,
                               .keep_latest_k = (int)s->keep_latest_k,
                               .keep_from = s->keep_from,
                               .was_read = shares_reading(s, m),
                               .is_part = s->host_local && m->n_hosts > 1};
    return async_owner_has_ended(s->writer) ? TESS_OK : async_retain(&r);
}

/* One writer at a time makes checkpoints in a folder: that of a job whose launcher was killed ends what it has, while
 * the job goes on elsewhere and may come to the same step. File systems without locks do without. */
static tess_status lock_folder(const save *s, int *fd)
{
    static const struct timespec look_again = {.tv_nsec = 20000000};
    double deadline_s = tess_os_now_s() + s->host_wait_s;
    TESS_TRY(tess_os_make_dirs(s->dir));
    *fd = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd < 0)
        return tess_os_error("open", s->dir);
    while (!tess_os_lock(*fd) && errno == EWOULDBLOCK) {
        if (tess_os_now_s() >= deadline_s) {
            tess_os_close(fd);
            return TESS_FAIL(TESS_E_IO, "%s: for %.0f s another job's writer has been making a checkpoint in it",
                             s->dir, s->host_wait_s);
        }
        nanosleep(&look_again, NULL);
    }
    return TESS_OK;
}

static tess_status make_and_commit_alone(save *s, const async_meeting *m)
{
    json_t **parts;
    json_t *own = NULL;
    bool meets = m->n_hosts > 1 && !s->host_local;
    TESS_TRY(tess_store_begin(&s->stages[0].io, s->dir, s->step, s->folder));
    tess_status status = meets ? async_meeting_open(m) : TESS_OK;
    if (status == TESS_OK)
        status = write_and_read(s, m, &own);
    json_decref(own);
    if (status == TESS_OK)
        status = tess_mem_alloc_array(s->mem, TESS_POOL_MISC, (size_t)(s->n + m->n_hosts), sizeof(parts[0]), "parts",
                                      (void **)&parts);
    if (status == TESS_OK) {
        status = commit(s, m, parts);
        tess_mem_free(s->mem, parts);
    }
    return status == TESS_OK ? prune(s, m) : tess_store_abandon(&s->stages[0].io, s->dir, s->step, status);
}

static tess_status make_and_commit(save *s, const async_meeting *m)
{
    int fd;
    TESS_TRY(lock_folder(s, &fd));
    tess_status status = make_and_commit_alone(s, m);
    tess_os_close(&fd);
    return status;
}

/* A part of what the first host's writer commits. */
static tess_status make_part(save *s, const async_meeting *m)
{
    json_t *whole = NULL;
    TESS_TRY(tess_ckpt_folder(s->dir, s->step, ".tmp", s->folder));
    TESS_TRY(async_meeting_await_open(m));
    tess_status status = write_and_read(s, m, &whole);
    tess_status left = async_meeting_leave_part(m, status == TESS_OK ? whole : NULL, status);
    json_decref(whole);
    return status == TESS_OK ? left : status;
}

static tess_status run(save *s, async_outcome *outcome)
{
    TESS_TRY(open_all(s));
    async_meeting meeting = meeting_of(s);
    outcome->step = s->step;
    tess_status status = s->host == 0 || s->host_local ? make_and_commit(s, &meeting) : make_part(s, &meeting);
    for (int i = 0; i < s->n; i++)
        outcome->bytes += s->stages[i].bytes;
    return status == TESS_OK ? TESS_OK : tess_fail_context(status, "checkpoint of step %lld", (long long)s->step);
}

tess_status async_write_checkpoint(async_writer *writer, async_outcome *outcome)
{
    save s = {.writer = writer, .outcome = outcome, .mem = writer->mem, .n = (int)writer->area->header->n_slots};
    TESS_TRY(
        tess_mem_alloc_array(s.mem, TESS_POOL_MISC, (size_t)s.n, sizeof(s.stages[0]), "stages", (void **)&s.stages));
    tess_status status = run(&s, outcome);
    for (int i = 0; i < s.n; i++)
        close_stage(s.mem, &s.stages[i]);
    tess_mem_free(s.mem, s.stages);
    return status;
}
