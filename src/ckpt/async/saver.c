/* A rank's side of asynchronous saves: begins them, fills its stage, and reports their outcome to all ranks. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/core/variables.h"
#include "base/os/process_handle.h"
#include "ckpt/async/saver_impl.h"
#include "ckpt/store/store.h"
#include "comm/agree.h"
#include "comm/rejoin.h"
#include "comm/seat.h"
#include "job/environment.h"
#include "base/mem/scoped.h"

/* Bytes in the stage for the texts of a save (mostly meta). */
enum { META_BYTES = 256 << 10 };

/* Whether this is the host's first rank. */
static bool is_first(const tess_saver *s)
{
    return s->slot == 0;
}

static bool has_own_folder(const tess_saver *s)
{
    return s->options.host_local && s->hosts->n > 1;
}

/* ---- Finding the area ---- */
/* The area of the host's first rank. All -1: no area. */
typedef struct address {
    int32_t pid, fd, keeper_pid;
} address;

/* Opens the first rank's area through /proc. */
static tess_status open_of_first(const address *first, async_area *area)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)first->pid, (int)first->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return tess_os_error("open the memory for saves", path);
    tess_status status = async_area_open(fd, area);
    if (status != TESS_OK)
        tess_os_close(&fd);
    return status;
}

/* Finds the area. Ranks that were started separately inherit different areas; all use the first rank's. */
static tess_status find_area(tess_saver *s)
{
    int fd;
    address first = {-1, -1, -1};
    bool inherited = tess_variable_value(TESS_VAR_SAVES) != NULL &&
                     tess_environment_number(TESS_VAR_SAVES, 0, INT32_MAX, &fd) == TESS_OK &&
                     async_area_open(fd, &s->area) == TESS_OK;
    tess_error_clear();
    if (is_first(s) && inherited)
        first = (address){(int32_t)getpid(), s->area.fd, s->area.header->keeper_pid};
    TESS_TRY(tess_broadcast(s->hosts->mine, &first, 3, TESS_I32, 0, NULL));
    if (inherited && s->area.header->keeper_pid == first.keeper_pid)
        return TESS_OK;
    async_area_close(&s->area, false);
    s->owns_fd = first.pid >= 0;
    return first.pid >= 0
               ? open_of_first(&first, &s->area)
               : TESS_FAIL(TESS_E_NOT_FOUND, "the process that started this rank has no writer of checkpoints");
}

static tess_status join(tess_saver *s)
{
    int64_t found, job = (int64_t)tess_os_now_ns();
    tess_status status = find_area(s);
    if (status == TESS_OK) {
        s->keeper_fd = tess_os_process_handle(s->area.header->keeper_pid);
        if (s->keeper_fd < 0 || atomic_load(&s->area.header->keeper_ended) != 0)
            status = tess_os_error("pidfd_open", "of the keeper of the writer of checkpoints");
    }
    if (status == TESS_E_PEER_LOST || status == TESS_E_TIMEOUT)
        return status;
    tess_error_clear();
    found = status == TESS_OK;
    TESS_TRY(tess_all_reduce(s->hosts->all, &found, &found, 1, TESS_I64, TESS_MIN, NULL));
    TESS_TRY(tess_broadcast(s->hosts->all, &job, 1, TESS_I64, 0, NULL));
    s->job = (uint64_t)job;
    return found ? TESS_OK : TESS_E_NOT_FOUND;
}

tess_status tess_saver_create(tess_runtime *runtime, const tess_ckpt_hosts *hosts, tess_threads *threads,
                              const tess_saver_options *options, tess_saver **saver)
{
    tess_mem *mem = tess_runtime_mem(runtime);
    tess_saver *s;
    *saver = NULL;
    TESS_TRY(TESS_NEW(mem, 1, "saver", &s));
    *s = (tess_saver){.runtime = runtime,
                      .mem = mem,
                      .hosts = hosts,
                      .threads = threads,
                      .options = *options,
                      .area = {.fd = -1},
                      .keeper_fd = -1,
                      .slot = tess_team_rank(hosts->mine),
                      .n_slots = tess_team_size(hosts->mine)};
    tess_status status = join(s);
    if (status == TESS_OK) {
        *saver = s;
        return TESS_OK;
    }
    tess_saver_destroy(&s);
    return status == TESS_E_NOT_FOUND ? TESS_OK : status;
}

void tess_saver_destroy(tess_saver **saver)
{
    tess_saver *s = *saver;
    if (s == NULL)
        return;
    async_stage_unmap(s);
    async_area_close(&s->area, s->owns_fd);
    tess_os_close(&s->keeper_fd);
    tess_mem_free(s->mem, s->pieces);
    tess_mem_free(s->mem, s->own);
    tess_mem_drop(saver);
}

/* ---- Waiting for the writer ---- */
/* True also for a save that this rank has staged and other ranks still stage: it will be queued. */
bool tess_saver_is_busy(const tess_saver *s)
{
    const async_header *header = s->area.header;
    uint64_t begun = atomic_load(&header->generation);
    uint32_t state = atomic_load(&header->state);
    return async_is_busy(header) || s->staged > begun || (state == ASYNC_STAGING && s->staged == begun && begun != 0);
}

/* Ends the save if the keeper, and with it its writer, has ended. Any rank may do this: the outcome is the same. */
static void end_without_keeper(async_header *header)
{
    async_outcome outcome = {.status = TESS_E_IO, .step = -1};
    snprintf(outcome.message, sizeof(outcome.message),
             "the process that starts writers of checkpoints (pid %d) has ended, and its writer with it",
             (int)header->keeper_pid);
    waitpid(header->keeper_pid, NULL, WNOHANG); /* reaps it if this rank is its parent */
    async_end(header, ASYNC_QUEUED, &outcome);
    async_end(header, ASYNC_WRITING, &outcome);
}

tess_status tess_saver_wait(tess_saver *s)
{
    async_header *header = s->area.header;
    for (;;) {
        uint32_t ticket = atomic_load(&header->changed);
        if (!tess_saver_is_busy(s))
            return TESS_OK;
        TESS_CHECK(!tess_launch_has_lost(s->runtime), TESS_E_PEER_LOST,
                   "a rank was lost while this one waited for the writer of checkpoints");
        if (async_has_ended(s->keeper_fd))
            end_without_keeper(header);
        else
            tess_os_futex_wait((const uint32_t *)&header->changed, ticket, 100000000);
    }
}

/* ---- Saving ---- */
void tess_saver_hurry(tess_saver *s)
{
    s->options.keep_latest_k = 0;
}

typedef struct save_folder {
    const tess_saver *saver;
    const char *dir;
} save_folder;

/* Returns the newest step up to `limit` that this host's writer reported as good after the previous save and that still
 * exists; -1: none. */
static int64_t newest_good(void *self, int64_t limit)
{
    const save_folder *h = self;
    const async_header *header = h->saver->area.header;
    char path[TESS_CKPT_PATH];
    int n = atomic_load(&header->state) == ASYNC_COMMITTED ? header->outcome.n_good : 0;
    for (int i = 0; i < n; i++)
        if (header->outcome.good[i] <= limit && tess_ckpt_find(NULL, h->dir, header->outcome.good[i], path) == TESS_OK)
            return header->outcome.good[i];
    tess_error_clear();
    return -1;
}

/* Agrees on the generation of the next save. If hosts have their own folders, also agrees on *keep_from: every host can
 * do without its parts of earlier steps (-1: not known). Collective, after every rank has waited for the writer. */
static tess_status agree_on_save(tess_saver *s, const char *dir, uint64_t *generation, int64_t *keep_from)
{
    save_folder h = {s, dir};
    int64_t words[2] = {(int64_t)atomic_load(&s->area.header->generation), async_has_ended(s->keeper_fd)};
    *keep_from = -1;
    TESS_TRY(tess_all_reduce(s->hosts->all, words, words, 2, TESS_I64, TESS_MAX, NULL));
    *generation = (uint64_t)words[0] + 1;
    TESS_CHECK(words[1] == 0, TESS_E_UNSUPPORTED,
               "the process that starts writers of checkpoints has ended: checkpoints can no longer be written beside "
               "training");
    if (has_own_folder(s) && s->options.keep_latest_k > 0)
        return tess_ckpt_keep_from(s->hosts, s->options.keep_latest_k, newest_good, &h, keep_from);
    return TESS_OK;
}

/* Begins a save, and discards the state of the previous one. */
static void begin(const tess_saver *s, const async_request *request, uint64_t generation)
{
    async_header *header = s->area.header;
    atomic_store(&header->state, ASYNC_STAGING);
    header->request = *request;
    header->n_slots = (uint32_t)s->n_slots;
    header->attempts = 0;
    atomic_store(&header->reported, generation - 1);
    atomic_store(&header->generation, generation);
}

/* Marks this rank's stage as complete. The last rank to do so queues the save. */
static void submit(tess_saver *s, const char *text, uint64_t generation)
{
    async_header *header = s->area.header;
    async_slot *slot = &header->slots[s->slot];
    size_t text_bytes = strlen(text);
    memcpy(s->stage + s->data_bytes, text, text_bytes);
    slot->data_bytes = s->data_bytes;
    slot->text_bytes = text_bytes;
    slot->rank = tess_team_rank(s->hosts->all);
    slot->life = 1 + (int32_t)tess_runtime_past(s->runtime, tess_runtime_rank(s->runtime))->n_before;
    atomic_store(&slot->staged, generation);
    s->staged = generation;
    for (int i = 0; i < s->n_slots; i++)
        if (atomic_load(&header->slots[i].staged) != generation)
            return;
    atomic_store(&header->queued_ns, tess_os_now_ns());
    async_step(header, ASYNC_STAGING, ASYNC_QUEUED);
}

/* Plans what this rank writes: the primary boxes of *tensors or, if its host has its own folder, its share of the
 * host's rows. */
static tess_status plan(tess_saver *s, const tess_ckpt_tensor **tensors, int n)
{
    if (has_own_folder(s)) {
        tess_mem_drop(&s->own);
        TESS_TRY(tess_team_agree(s->hosts->mine, TESS_NEW(s->mem, n, "rows of a host", &s->own)));
        TESS_TRY(tess_ckpt_share(s->mem, s->hosts, *tensors, n, s->own));
        *tensors = s->own;
    }
    return async_stage_plan(s, *tensors, n);
}

static tess_status describe(tess_saver *s, json_t *request, char **text)
{
    json_t *own = is_first(s) ? request : NULL;
    TESS_CHECK(!is_first(s) || request != NULL, TESS_E_NOMEM, "no memory to describe a save");
    TESS_TRY(async_request_format(s->pieces, s->n_pieces, own, text));
    if (async_stage_bytes(s, strlen(*text)) <= s->stage_bytes)
        return TESS_OK;
    return async_stage_map(s, 2 * strlen(*text)); /* twice the size, since later texts may be longer */
}

static tess_status stage(tess_saver *s, const async_request *request, json_t *texts, const tess_ckpt_tensor *tensors,
                         int n, uint64_t generation)
{
    char *text = NULL;
    tess_status status = plan(s, &tensors, n);
    if (status == TESS_OK)
        status = describe(s, texts, &text);
    status = tess_team_agree(s->hosts->all, status);
    if (status == TESS_OK) {
        if (is_first(s))
            begin(s, request, generation);
        async_stage_copy(s, tensors);
        submit(s, text, generation);
    }
    free(text);
    return status;
}

tess_status tess_saver_save(tess_saver *s, const char *dir, int64_t step, const json_t *meta,
                            const tess_ckpt_tensor *tensors, int n_tensors, tess_saver_times *times)
{
    uint64_t generation;
    async_request request = {.options = s->options,
                             .step = step,
                             .job = s->job,
                             .world = tess_team_size(s->hosts->all),
                             .host = s->hosts->host,
                             .n_hosts = s->hosts->n};
    double begin_s = tess_os_now_s();
    TESS_TRY(tess_saver_wait(s));
    TESS_TRY(agree_on_save(s, dir, &generation, &request.keep_from));
    double waited_s = tess_os_now_s();
    json_t *texts = NULL;
    if (is_first(s))
        texts = json_pack("{s:s, s:O*, s:s, s:o*}", "dir", dir, "meta", (json_t *)meta, "fault",
                          s->options.fault != NULL ? s->options.fault : "", "host",
                          has_own_folder(s) ? tess_store_describe_host(s->hosts) : NULL);
    tess_status status = stage(s, &request, texts, tensors, n_tensors, generation);
    json_decref(texts);
    *times = (tess_saver_times){
        .waited_s = waited_s - begin_s, .staged_s = tess_os_now_s() - waited_s, .bytes = (int64_t)s->payload};
    return status == TESS_OK ? TESS_OK : tess_fail_context(status, "stage checkpoint of step %lld", (long long)step);
}

tess_status tess_saver_prepare(tess_saver *s, const tess_ckpt_tensor *tensors, int n_tensors)
{
    char *text = NULL;
    tess_status status = plan(s, &tensors, n_tensors);
    if (status == TESS_OK)
        status = async_request_format(s->pieces, s->n_pieces, NULL, &text);
    size_t text_bytes = (text != NULL ? strlen(text) : 0) + META_BYTES;
    free(text);
    TESS_TRY(tess_team_agree(s->hosts->all, status));
    TESS_TRY(tess_team_agree(s->hosts->all, async_check_room(s, async_stage_bytes(s, text_bytes))));
    return tess_team_agree(s->hosts->all, async_stage_map(s, text_bytes));
}

/* ---- The outcome ---- */
static bool has_unreported_end(const async_header *header)
{
    uint32_t state = atomic_load(&header->state);
    return (state == ASYNC_COMMITTED || state == ASYNC_FAILED) &&
           atomic_load(&header->reported) != atomic_load(&header->generation);
}

bool tess_saver_has_news(const tess_saver *s)
{
    async_header *header = s->area.header;
    if (!is_first(s))
        return false;
    if (async_is_busy(header) && async_has_ended(s->keeper_fd))
        end_without_keeper(header);
    return has_unreported_end(header) || atomic_load(&header->deaths) != atomic_load(&header->deaths_reported);
}

static bool is_lost(tess_status status)
{
    return status == TESS_E_PEER_LOST || status == TESS_E_TIMEOUT || status == TESS_E_MISMATCH;
}

/* Returns the outcome of the newest save. A writer's timeout or mismatch becomes TESS_E_IO: as statuses of a rank they
 * would end the job. */
static tess_status own_outcome(const tess_saver *s, tess_saver_outcome *outcome)
{
    async_header *header = s->area.header;
    if (!is_first(s) || !has_unreported_end(header))
        return TESS_OK;
    const async_outcome *o = &header->outcome;
    atomic_store(&header->reported, atomic_load(&header->generation));
    if (o->status != TESS_OK)
        return TESS_FAIL(is_lost((tess_status)o->status) ? TESS_E_IO : (tess_status)o->status, "%s", o->message);
    outcome->committed = true;
    outcome->step = o->step;
    outcome->seconds = o->seconds;
    outcome->bytes = o->bytes;
    return TESS_OK;
}

/* Fails with the warning: a writer died, or a writer found an older checkpoint damaged. */
static tess_status own_warning(const tess_saver *s)
{
    async_header *header = s->area.header;
    uint32_t deaths = atomic_load(&header->deaths);
    bool died = is_first(s) && deaths != atomic_load(&header->deaths_reported);
    bool found = is_first(s) && has_unreported_end(header) && header->outcome.status == TESS_OK &&
                 header->outcome.message[0] != '\0';
    if (!died && !found)
        return TESS_OK;
    if (died)
        atomic_store(&header->deaths_reported, deaths);
    return TESS_FAIL(TESS_E_IO, "%s%s%s%s", died ? header->death : "", died ? "; another one has taken its place" : "",
                     died && found ? "; " : "", found ? header->outcome.message : "");
}

tess_status tess_saver_hear(tess_saver *s, tess_saver_outcome *outcome)
{
    *outcome = (tess_saver_outcome){.step = -1};
    tess_status status = tess_team_agree(s->hosts->all, own_warning(s));
    if (is_lost(status))
        return status;
    if (status != TESS_OK)
        snprintf(outcome->warning, sizeof(outcome->warning), "%s", tess_error_message());
    tess_error_clear();
    return tess_team_agree(s->hosts->all, own_outcome(s, outcome));
}
