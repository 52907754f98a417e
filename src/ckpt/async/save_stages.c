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
    uint8_t *address;
    size_t mapped;
    json_t *text;
    tess_store_piece *pieces;
    tess_io_faults faults;
    tess_io io;
} stage;

typedef struct stage_save {
    async_writer *writer;
    async_outcome *outcome;
    tess_mem *mem;
    stage *stages;
    tess_store_file *files; /* (n) that they become */
    int n;
    const async_request *request;
    const json_t *texts; /* of the request, in the first stage */
    const char *dir;
} stage_save;

static tess_status open_stage(const stage_save *s, int i)
{
    stage *st = &s->stages[i];
    const async_slot *slot = &s->writer->area->header->slots[i];
    st->mapped = slot->data_bytes + slot->text_bytes;
    TESS_TRY(async_area_map_stage(s->writer->area, i, st->mapped, &st->address));
    TESS_TRY(
        tess_json_parse((const char *)st->address + slot->data_bytes, slot->text_bytes, "stage", false, &st->text));
    size_t n = json_array_size(json_object_get(st->text, "pieces"));
    TESS_TRY(tess_mem_alloc_array(s->mem, TESS_POOL_MISC, n, sizeof(st->pieces[0]), "pieces of a save",
                                  (void **)&st->pieces));
    for (size_t k = 0; k < n; k++) {
        TESS_TRY(async_request_piece(st->text, k, st->address, slot->data_bytes, &st->pieces[k]));
        st->pieces[k].rank = slot->rank;
    }
    s->files[i] = (tess_store_file){slot->rank, (int)n, st->pieces, &st->io};
    return TESS_OK;
}

static void close_stage(tess_mem *mem, stage *st)
{
    tess_mem_free(mem, st->pieces);
    json_decref(st->text);
    if (st->address != NULL)
        tess_os_unmap_shared(st->address, st->mapped);
}

/* Each stage is hit by the faults of its rank. */
static tess_status arm(stage_save *s)
{
    async_writer *w = s->writer;
    const char *fault = "";
    TESS_TRY(tess_json_get_string(s->texts, "fault", "request of a save", &fault));
    if (w->faults == NULL && fault[0] != '\0') {
        TESS_TRY(tess_mem_alloc_array(w->mem, TESS_POOL_MISC, (size_t)s->n, sizeof(w->faults[0]), "faults",
                                      (void **)&w->faults));
        w->n_faults = s->n;
        const tess_fault_spec spec = {
            .text = fault, .seed = s->request->options.fault_seed, .world = s->request->world};
        for (int i = 0; i < s->n; i++)
            TESS_TRY(tess_faults_create(w->mem, &spec, s->files[i].rank, 1, &w->faults[i]));
    }
    for (int i = 0; i < s->n; i++) {
        stage *st = &s->stages[i];
        st->faults = (tess_io_faults){.faults = i < w->n_faults ? w->faults[i] : NULL, .step = s->request->step};
        st->io = tess_io_with_faults(&st->faults);
    }
    return TESS_OK;
}

static tess_status open_all(stage_save *s)
{
    for (int i = 0; i < s->n; i++)
        TESS_TRY(open_stage(s, i));
    s->texts = json_object_get(s->stages[0].text, "request");
    TESS_TRY(tess_json_get_string(s->texts, "dir", "request of a save", &s->dir));
    TESS_CHECK(s->dir != NULL, TESS_E_FORMAT, "request of a save: no folder");
    return arm(s);
}

/* ---- What writers of several hosts are to one another in a folder of all ---- */
/* A writer that began before this one's folder was made anew has written to files that are gone. */
static tess_status check_files(const char *folder, const json_t *part)
{
    const char *name;
    json_t *bytes;
    json_object_foreach (json_object_get((json_t *)part, "files"), name, bytes) {
        char path[TESS_CKPT_PATH];
        uint64_t size;
        TESS_TRY(tess_os_join(path, sizeof(path), folder, name));
        TESS_TRY(tess_os_file_size(path, &size));
        TESS_CHECK(size == (uint64_t)json_integer_value(bytes), TESS_E_IO, "%s has %llu bytes; %lld were written", path,
                   (unsigned long long)size, (long long)json_integer_value(bytes));
    }
    return TESS_OK;
}

static tess_status take_part(const async_meeting *m, int host, json_t *part)
{
    json_t *more;
    TESS_TRY(async_meeting_take_part(m, host, &more));
    tess_status status = check_files(m->folder, more);
    if (status == TESS_OK)
        status = tess_part_merge(part, more);
    json_decref(more);
    return status;
}

static tess_status begin(void *self, const char *folder, tess_status made)
{
    async_meeting *m = self;
    m->folder = folder;
    TESS_TRY(made);
    return m->host == 0 ? async_meeting_open(m) : async_meeting_await_open(m);
}

static tess_status collect(void *self, tess_status made, json_t *part)
{
    const async_meeting *m = self;
    if (m->host > 0) {
        tess_status left = async_meeting_leave_part(m, made == TESS_OK ? part : NULL, made);
        return made == TESS_OK ? left : made;
    }
    TESS_TRY(made);
    for (int host = 1; host < m->n_hosts; host++)
        TESS_TRY(take_part(m, host, part));
    async_meeting_close(m);
    return TESS_OK;
}

/* ---- The checkpoint ---- */
static bool meets(const stage_save *s)
{
    return s->request->n_hosts > 1 && !s->request->options.host_local;
}

/* Writers that meet each read back what they wrote, so that the first does not have to read the work of all while the
 * next save waits for it. Only what may make older ones go is read. */
static bool reads_back(const stage_save *s)
{
    return meets(s) && s->request->options.keep_latest_k > 0;
}

static tess_status write_checkpoint(stage_save *s)
{
    const async_request *r = s->request;
    int n = s->n < tess_os_cores() ? s->n : tess_os_cores();
    async_meeting meeting = {.job = r->job,
                             .generation = atomic_load(&s->writer->area->header->generation),
                             .host = r->host,
                             .n_hosts = r->n_hosts,
                             .wait_s = r->options.host_wait_s};
    const tess_store_peers peers = {.self = &meeting, .begin = begin, .collect = collect};
    const tess_store_options options = {.codec = r->options.codec, .direct = r->options.direct, .io = &s->stages[0].io};
    tess_store_writer writer = {
        .mem = s->mem,
        .dir = s->dir,
        .step = r->step,
        .options = &options,
        .facts = {json_object_get(s->texts, "meta"), r->world, json_object_get(s->texts, "host")},
        .files = s->files,
        .n_files = s->n,
        .n_threads = n < MOST_THREADS ? n : MOST_THREADS,
        .first = r->host == 0 || r->options.host_local,
        .reads_back = reads_back(s),
        .peers = meets(s) ? &peers : NULL};
    tess_status status = tess_store_save(&writer);
    s->outcome->bytes = writer.bytes;
    return status;
}

/* A writer whose owner has ended may not be the only one that looks after this folder. */
static tess_status prune(const stage_save *s)
{
    const async_retention r = {.mem = s->mem,
                               .io = &s->stages[0].io,
                               .findings = &s->writer->findings,
                               .outcome = s->outcome,
                               .dir = s->dir,
                               .step = s->request->step,
                               .keep_latest_k = s->request->options.keep_latest_k,
                               .keep_from = s->request->keep_from,
                               .was_read = reads_back(s),
                               .is_part = s->request->options.host_local && s->request->n_hosts > 1};
    return async_owner_has_ended(s->writer) ? TESS_OK : async_retain(&r);
}

/* One writer at a time makes checkpoints in a folder: that of a job whose launcher was killed ends what it has, while
 * the job goes on elsewhere and may come to the same step. File systems without locks do without. */
static tess_status lock_folder(const stage_save *s, int *fd)
{
    static const struct timespec look_again = {.tv_nsec = 20000000};
    double wait_s = s->request->options.host_wait_s, deadline_s = tess_os_now_s() + wait_s;
    TESS_TRY(tess_os_make_dirs(s->dir));
    *fd = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd < 0)
        return tess_os_error("open", s->dir);
    while (!tess_os_lock(*fd) && errno == EWOULDBLOCK) {
        if (tess_os_now_s() >= deadline_s) {
            tess_os_close(fd);
            return TESS_FAIL(TESS_E_IO, "%s: for %.0f s another job's writer has been making a checkpoint in it",
                             s->dir, wait_s);
        }
        nanosleep(&look_again, NULL);
    }
    return TESS_OK;
}

static tess_status write_locked(stage_save *s)
{
    int fd;
    TESS_TRY(lock_folder(s, &fd));
    tess_status status = write_checkpoint(s);
    if (status == TESS_OK)
        status = prune(s);
    tess_os_close(&fd);
    return status;
}

/* The first host's writer commits the parts of the others. */
static tess_status run(stage_save *s)
{
    TESS_TRY(open_all(s));
    s->outcome->step = s->request->step;
    tess_status status =
        s->request->host == 0 || s->request->options.host_local ? write_locked(s) : write_checkpoint(s);
    return status == TESS_OK ? TESS_OK
                             : tess_fail_context(status, "checkpoint of step %lld", (long long)s->request->step);
}

static tess_status allocate(stage_save *s)
{
    size_t n = (size_t)s->n;
    TESS_TRY(tess_mem_alloc_array(s->mem, TESS_POOL_MISC, n, sizeof(s->stages[0]), "stages", (void **)&s->stages));
    return tess_mem_alloc_array(s->mem, TESS_POOL_MISC, n, sizeof(s->files[0]), "stages", (void **)&s->files);
}

tess_status async_write_checkpoint(async_writer *writer, async_outcome *outcome)
{
    const async_header *header = writer->area->header;
    stage_save s = {.writer = writer, .outcome = outcome, .mem = writer->mem, .n = (int)header->n_slots};
    s.request = &header->request;
    tess_status status = allocate(&s);
    if (status == TESS_OK)
        status = run(&s);
    for (int i = 0; s.stages != NULL && i < s.n; i++)
        close_stage(s.mem, &s.stages[i]);
    tess_mem_free(s.mem, s.stages);
    tess_mem_free(s.mem, s.files);
    return status;
}
