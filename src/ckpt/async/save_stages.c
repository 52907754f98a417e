/* Writes a checkpoint from the stages of a host: first one file per rank, in parallel, then manifest, marker and final
 * name. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text/json.h"
#include "ckpt/async/async_impl.h"
#include "ckpt/store/store.h"

enum { MOST_THREADS = 8 };

/* The number of good steps reported in addition to those to keep. Hosts may have lost different steps, so they have
 * fewer steps in common than each has. */
enum { FURTHER = 4 };

/* One rank's stage, and the hooks for writing its file. */
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
    tess_store_file *files; /* (n) one per stage */
    int n;
    const async_request *request;
    const json_t *texts; /* texts of the request, from the first stage */
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
    TESS_TRY(TESS_NEW(s->mem, n, "pieces of a save", &st->pieces));
    for (size_t k = 0; k < n; k++) {
        TESS_TRY(async_request_piece(st->text, k, st->address, slot->data_bytes, &st->pieces[k]));
        st->pieces[k].rank = slot->rank;
    }
    s->files[i] = (tess_store_file){slot->rank, (int)n, st->pieces, &st->io};
    return TESS_OK;
}

/* Creates the injected faults of a slot's rank for its present life. */
static tess_status make_faults(async_writer *w, const tess_fault_spec *spec, const async_slot *slot, async_faults *f)
{
    if (f->life == slot->life)
        return TESS_OK;
    tess_faults_destroy(w->mem, &f->faults);
    f->past = (tess_rank_past){.n_before = (uint32_t)slot->life - 1};
    TESS_TRY(tess_faults_create(w->mem, spec, slot->rank, &f->past, &f->faults));
    f->life = slot->life;
    return TESS_OK;
}

/* Gives each stage the injected faults of its rank. */
static tess_status add_faults(stage_save *s)
{
    async_writer *w = s->writer;
    const char *fault = "";
    TESS_TRY(tess_json_get_string(s->texts, "fault", "request of a save", &fault));
    const tess_fault_spec spec = {
        .text = fault, .seed = s->request->options.fault_seed, .world = s->request->world, .any_rank = true};
    if (w->faults == NULL && fault[0] != '\0') {
        TESS_TRY(TESS_NEW(w->mem, s->n, "faults", &w->faults));
        w->n_faults = s->n;
    }
    for (int i = 0; i < s->n; i++) {
        stage *st = &s->stages[i];
        st->faults = (tess_io_faults){.step = s->request->step};
        if (i < w->n_faults) {
            TESS_TRY(make_faults(w, &spec, &w->area->header->slots[i], &w->faults[i]));
            st->faults.faults = w->faults[i].faults;
        }
        st->io = tess_io_with_faults(&st->faults);
    }
    return TESS_OK;
}

/* ---- The checkpoint ---- */
/* Whether the writers of several hosts make this checkpoint together. */
static bool meets(const async_request *r)
{
    return r->n_hosts > 1 && !r->options.host_local;
}

/* Whether this writer creates the folder and commits the checkpoint. */
static bool is_first(const async_request *r)
{
    return r->host == 0 || r->options.host_local;
}

/* Whether each of several writers reads back its own files. Otherwise the first writer would read the files of all
 * while the next save waits for it. Without pruning nothing needs to be read. */
static bool reads_back(const async_request *r)
{
    return meets(r) && r->options.keep_latest_k > 0;
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
    const tess_store_peers peers = async_meeting_peers(&meeting);
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
        .first = is_first(r),
        .reads_back = reads_back(r),
        .peers = meets(r) ? &peers : NULL};
    tess_status status = tess_store_save(&writer);
    s->outcome->bytes = writer.bytes;
    return status;
}

/* Prunes a folder that belongs to this host. After the previous save the writers of all hosts reported their good
 * steps, and the ranks agreed on the first step that is still needed (keep_from). This call reports the good steps for
 * the next save. */
static tess_status prune_part(const stage_save *s, const tess_ckpt_pruner *pruner)
{
    int keep = s->request->options.keep_latest_k, most = keep < ASYNC_GOOD - FURTHER ? keep + FURTHER : ASYNC_GOOD;
    TESS_TRY(tess_ckpt_prune_below(pruner, s->dir, s->request->keep_from));
    if (keep == 0)
        return TESS_OK;
    return tess_ckpt_list_good(pruner, s->dir, s->request->step, keep, most, s->outcome->good, &s->outcome->n_good);
}

/* Removes older checkpoints. If the owner of this writer has ended, does nothing: another job may use this folder. */
static tess_status prune(const stage_save *s)
{
    const async_request *r = s->request;
    tess_ckpt_notes notes = {.text = s->outcome->message, .size = sizeof(s->outcome->message)};
    const tess_ckpt_pruner pruner = {.mem = s->mem,
                                     .io = &s->stages[0].io,
                                     .findings = &s->writer->findings,
                                     .self = &notes,
                                     .note = tess_ckpt_keep_note};
    if (async_has_ended(s->writer->owner_fd))
        return TESS_OK;
    if (reads_back(r))
        tess_ckpt_note_good(&pruner, s->dir, r->step);
    TESS_TRY_CTX(r->options.host_local && r->n_hosts > 1
                     ? prune_part(s, &pruner)
                     : tess_ckpt_prune(&pruner, s->dir, r->options.keep_latest_k, r->step),
                 "the checkpoint is whole, but older ones could not be removed");
    return TESS_OK;
}

/* Waits until no other writer makes checkpoints in this folder. If a job's launcher was killed, its writer still
 * finishes its save, while the job continues elsewhere and may reach the same step. On file systems without locks
 * nothing is locked. */
static tess_status lock_folder(const stage_save *s, int *fd)
{
    static const struct timespec poll_interval = {.tv_nsec = 20000000};
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
        nanosleep(&poll_interval, NULL);
    }
    return TESS_OK;
}

static tess_status write_locked(stage_save *s)
{
    TESS_AUTO(tess_os_close) int fd = -1;
    TESS_TRY(lock_folder(s, &fd));
    TESS_TRY(write_checkpoint(s));
    return prune(s);
}

static tess_status run(stage_save *s)
{
    const async_request *r = s->request;
    for (int i = 0; i < s->n; i++)
        TESS_TRY(open_stage(s, i));
    s->texts = json_object_get(s->stages[0].text, "request");
    TESS_TRY(tess_json_get_string(s->texts, "dir", "request of a save", &s->dir));
    TESS_CHECK(s->dir != NULL, TESS_E_FORMAT, "request of a save: no folder");
    TESS_TRY(add_faults(s));
    s->outcome->step = r->step;
    tess_status status = is_first(r) ? write_locked(s) : write_checkpoint(s);
    return status == TESS_OK ? TESS_OK : tess_fail_context(status, "checkpoint of step %lld", (long long)r->step);
}

tess_status async_write_checkpoint(async_writer *writer, async_outcome *outcome)
{
    const async_header *header = writer->area->header;
    size_t n = header->n_slots;
    stage_save s = {.writer = writer, .outcome = outcome, .mem = writer->mem, .n = (int)n};
    s.request = &header->request;
    tess_status status = TESS_NEW(s.mem, n, "stages", &s.stages);
    if (status == TESS_OK)
        status = TESS_NEW(s.mem, n, "stages", &s.files);
    if (status == TESS_OK)
        status = run(&s);
    for (size_t i = 0; s.stages != NULL && i < n; i++) {
        stage *st = &s.stages[i];
        tess_mem_free(s.mem, st->pieces);
        json_decref(st->text);
        if (st->address != NULL)
            tess_os_unmap_shared(st->address, st->mapped);
    }
    tess_mem_free(s.mem, s.stages);
    tess_mem_free(s.mem, s.files);
    return status;
}
