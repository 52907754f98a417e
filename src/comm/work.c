/* Work handles. There is no background thread: start, wait and done progress the team's operations
 * (work_progress.c). A waiting rank progresses all of its teams (work_wait.c). */
#include <string.h>

#include "base/os/os.h"
#include "comm/comm_impl.h"
#include "device/dry/work_trace.h"
#include "comm/volume.h"

/* Records the request before any buffer is touched, so that the ring of a crashed rank shows it. */
static void record_request(tess_work *work)
{
    if (!COMM_IS_GUARDED)
        return;
    tess_runtime *rt = work->team->runtime;
    const tess_fingerprint *fp = &work->fp;
    tess_trace_event event = {.team = fp->team,
                              .sequence = fp->sequence,
                              .count = fp->count,
                              .tag = fp->tag,
                              .call_site = fp->call_site,
                              .label = fp->label,
                              .step = atomic_load_explicit(&rt->row->step, memory_order_relaxed),
                              .detail = atomic_load_explicit(&rt->row->detail, memory_order_relaxed),
                              .root = fp->root,
                              .op = fp->kind,
                              .state = TESS_TRACE_ENQUEUED,
                              .dtype = fp->dtype,
                              .in_dtype = fp->in_dtype,
                              .reduce_op = fp->op};
    tess_board_phase_of(rt->row, event.phase);
    work->event = tess_trace_emit(rt->ring, &event, 0);
    work->received = (uint64_t)tess_volume_received(work);
}

/* Records the time, and updates the board. The peers already have the post, so this does not delay them. */
static void record_request_time(tess_work *work)
{
    if (!COMM_IS_GUARDED)
        return;
    tess_runtime *rt = work->team->runtime;
    uint64_t now_ns = tess_os_now_ns();
    tess_trace_update(rt->ring, work->event, TESS_TRACE_ENQUEUED, now_ns);
    tess_board_op(rt->row, &work->fp, work->team->name, now_ns);
}

static tess_status repeat_error(const tess_team *team)
{
    return TESS_FAIL(team->broken, "%s", team->error);
}

tess_status tess_work_begin(tess_team *team, tess_trace_op kind, const void *call_site, tess_work **out)
{
    bool message = kind == TESS_TRACE_SEND || kind == TESS_TRACE_RECV;
    tess_team_lock(team);
    while (team->broken == TESS_OK && !message && team->n_in_flight >= CONTROL_IN_FLIGHT)
        tess_work_wait_for(team->head, 0);
    if (team->broken != TESS_OK) {
        tess_team_unlock(team);
        return repeat_error(team);
    }
    size_t bytes = sizeof(tess_work) + team->backend->work_bytes;
    tess_work *work = team->spare;
    if (work != NULL) {
        team->spare = work->next;
    } else {
        void *memory;
        tess_status status = tess_mem_alloc(team->runtime->mem, TESS_POOL_MISC, bytes, "work handle", &memory);
        if (status != TESS_OK) {
            tess_team_unlock(team);
            return status;
        }
        work = memory;
    }
    memset(work, 0, bytes);
    work->team = team;
    work->backend = team->backend;
    work->root = -1;
    work->fp = (tess_fingerprint){.team = team->hash,
                                  .kind = (uint8_t)kind,
                                  .root = -1,
                                  .dtype = TESS_U8,
                                  .in_dtype = TESS_U8,
                                  .label = team->label,
                                  .call_site = tess_team_call_site(team, call_site)};
    *out = work;
    return TESS_OK;
}

/* Chooses the backend of the work. If that fails, the work is freed and its team unlocked. */
static tess_status place(tess_work *work)
{
    tess_team *team = work->team;
    tess_status status = team->runtime->place != NULL ? team->runtime->place(work) : TESS_OK;
    if (status == TESS_OK)
        return TESS_OK;
    status = tess_fail_context(status, "%s", tess_trace_op_name(work->fp.kind));
    tess_work_release(work);
    tess_team_unlock(team);
    return status;
}

tess_status tess_work_submit(tess_work *work, tess_work **handle)
{
    TESS_TRY(place(work));
    tess_status (*submit)(tess_work *, tess_work **) = work->team->runtime->submit;
    return submit != NULL ? submit(work, handle) : tess_work_post(work, handle);
}

tess_status tess_work_post(tess_work *work, tess_work **handle)
{
    tess_team *team = work->team;
    work->blocks = handle == NULL;
    if (tess_work_is_message(work)) {
        work->fp.sequence = team->n_messages++;
        work->link = work->device.is ? &tess_link_on_device : team->backend->link(team, work->root);
        record_request(work);
        tess_work **at = &team->messages;
        while (*at != NULL)
            at = &(*at)->next;
        *at = work;
    } else {
        work->fp.sequence = team->sequence++;
        record_request(work);
        if (team->tail != NULL)
            team->tail->next = work;
        else
            team->head = work;
        team->tail = work;
        team->n_in_flight++;
        work->backend->start(work);
    }
    record_request_time(work);
    tess_team_progress(team);
    if (handle != NULL)
        *handle = work;
    tess_team_unlock(team);
    return handle != NULL ? TESS_OK : tess_work_wait(&work, 0);
}

tess_status tess_work_pretend(tess_work *work, tess_work **handle)
{
    work->done = true;
    tess_team_unlock(work->team);
    if (handle == NULL)
        return tess_work_wait(&work, 0);
    *handle = work;
    return TESS_OK;
}

tess_status tess_work_repeat(const tess_work *request, bool detached, tess_work **handle)
{
    tess_work *work;
    TESS_TRY(tess_work_begin(request->team, request->fp.kind, NULL, &work));
    *work = *request;
    work->detached = detached;
    TESS_TRY(place(work)); /* the work may belong to another team */
    return tess_work_post(work, handle);
}

/* Records the wait of a dry rank. */
static void trace_wait(tess_work_trace *trace, const tess_work *work)
{
    if (trace != NULL && work->event > 0)
        tess_work_trace_wait(trace, (int)work->event - 1);
}

tess_status tess_work_wait(tess_work **handle, double timeout_s)
{
    TESS_CHECK(handle != NULL && *handle != NULL, TESS_E_INVALID, "tess_work_wait: there is no work");
    tess_work *work = *handle;
    tess_team *team = work->team;
    *handle = NULL;
    tess_team_lock(team);
    if (!work->done)
        tess_work_wait_for(work, timeout_s);
    if (team->runtime->dry != NULL)
        trace_wait(team->runtime->dry->trace, work);
    tess_status status = work->status;
    if (status != TESS_OK)
        repeat_error(team);
    tess_work_release(work);
    tess_team_unlock(team);
    return status;
}

bool tess_work_done(tess_work *work)
{
    if (work == NULL)
        return true;
    tess_team *team = work->team;
    tess_team_lock(team);
    if (!work->done)
        tess_team_progress(team);
    bool done = work->done;
    tess_team_unlock(team);
    return done;
}

void tess_work_cancel(tess_work **handle)
{
    if (handle == NULL || *handle == NULL)
        return;
    tess_work *work = *handle;
    tess_team *team = work->team;
    *handle = NULL;
    tess_team_lock(team);
    if (team->broken == TESS_OK) {
        char what[256];
        TESS_FAIL(TESS_E_CANCELLED, "this rank (%d) gave up %s", team->runtime->rank,
                  tess_fingerprint_format(&work->fp, team->name, what, sizeof(what)));
        tess_team_break(team, TESS_E_CANCELLED, -1);
        uint32_t nobody = 0;
        atomic_compare_exchange_strong(&team->control->given_up, &nobody, (uint32_t)team->rank + 1);
        for (int r = 0; r < team->size; r++)
            tess_job_wake(&team->runtime->job, team->ranks[r]);
    }
    tess_work_release(work);
    tess_team_unlock(team);
}
