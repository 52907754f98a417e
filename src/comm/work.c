/* Work handles: start, progress and waiting (trouble.c has what can go wrong meanwhile). No thread works behind the
 * caller's back: operations move on inside start, wait and done, of this team or, while a rank waits, of all its teams.
 */
#include "comm/comm_impl.h"

#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "comm/hosts/hosts.h"
#include "comm/hosts/session.h"
#include "job/deadline.h"

static const uint64_t longest_sleep_ns = 50000000; /* then the board is looked at again */
static const double shown_s = 0.02;                /* a longer wait is for others to see */
static const uint64_t large_bytes = 1 << 20;       /* from here on an operation tells how fast the links are */
static const uint64_t wire_sleep_ns = 50000;       /* messages of other hosts ring no bell */

/* What this rank asks for, before anything of it is touched: whoever looks at a crashed rank finds it. */
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
}

/* When that was, and the board: the peers have been told already, so this costs none of their time. */
static void record_request_time(tess_work *work)
{
    if (!COMM_IS_GUARDED)
        return;
    tess_runtime *rt = work->team->runtime;
    uint64_t now_ns = tess_os_now_ns();
    tess_trace_update(rt->ring, work->event, TESS_TRACE_ENQUEUED, now_ns);
    tess_board_op(rt->row, &work->fp, work->team->name, now_ns);
}

void tess_work_record(tess_work *work, tess_trace_state state)
{
    if (!COMM_IS_GUARDED)
        return;
    tess_runtime *rt = work->team->runtime;
    uint64_t now_ns = tess_os_now_ns();
    if (state == TESS_TRACE_STARTED)
        work->started_ns = now_ns;
    if (work->is_short)
        tess_trace_update(rt->ring, work->event, TESS_TRACE_STARTED, now_ns);
    tess_trace_update(rt->ring, work->event, state, now_ns);
    tess_board_op_state(rt->row, &work->fp, state);
}

static void release(tess_work *work)
{
    work->next = work->team->spare;
    work->team->spare = work;
}

static uint64_t bytes_of(const tess_work *work)
{
    return work->fp.count * tess_dtype_size((tess_dtype)work->fp.dtype);
}

/* Of links between hosts, while the caller does nothing else. */
static void note_speed(const tess_work *work)
{
    double *known = &work->team->bytes_per_s;
    if (work->team->hosts == NULL || !work->blocks || work->started_ns == 0 || work->status != TESS_OK ||
        bytes_of(work) < large_bytes)
        return;
    double seconds = (double)(tess_os_now_ns() - work->started_ns) * 1e-9;
    *known = watchdog_learn_speed(*known, (double)bytes_of(work) / seconds);
}

static void finish(tess_work *work)
{
    work->done = true;
    note_speed(work);
    tess_work_record(work, work->status == TESS_OK ? TESS_TRACE_COMPLETED : TESS_TRACE_FAILED);
    if (work->detached)
        release(work);
}

tess_status tess_team_break(tess_team *team, tess_status status, int blames)
{
    if (team->broken != TESS_OK)
        return team->broken;
    team->broken = status;
    snprintf(team->error, sizeof(team->error), "%s", tess_error_message());
    /* Who blames itself has failed alone, before anybody met it (tess_runtime_report). */
    tess_board_error(team->runtime->row, team->error, blames == team->runtime->rank ? -1 : blames);
    atomic_store(&team->runtime->row->broken_team, team->hash);
    if (team->hosts != NULL)
        tess_hosts_give_up(team);
    while (team->head != NULL) {
        tess_work *work = team->head;
        team->head = work->next;
        work->status = status;
        finish(work);
    }
    team->tail = NULL;
    team->n_in_flight = 0;
    while (team->messages != NULL) {
        tess_work *work = team->messages;
        team->messages = work->next;
        work->status = status;
        if (tess_team_host(team, work->root) != tess_team_host(team, team->rank))
            tess_hosts_message_free(work);
        finish(work);
    }
    return status;
}

void tess_team_progress(tess_team *team)
{
    while (team->head != NULL) {
        tess_work *work = team->head;
        if (!team->backend->advance(work))
            break;
        if (work->status != TESS_OK) {
            tess_team_break(team, work->status, -1);
            return;
        }
        team->head = work->next;
        if (team->head == NULL)
            team->tail = NULL;
        team->n_in_flight--;
        finish(work);
    }
    for (tess_work **at = &team->messages; *at != NULL;) {
        tess_work *work = *at;
        if (!tess_message_advance(work)) {
            at = &work->next;
            continue;
        }
        if (work->status != TESS_OK) {
            tess_team_break(team, work->status, -1);
            return;
        }
        *at = work->next;
        finish(work);
    }
}

/* A peer may wait for our part in an operation of another team: no order between teams is asked of the caller. */
static void help_other_teams(tess_runtime *rt, tess_team *mine)
{
    if (atomic_flag_test_and_set_explicit(&rt->list_lock, memory_order_acquire))
        return;
    for (tess_team *team = rt->teams; team != NULL; team = team->next) {
        bool can = team->hosts == NULL || tess_wire_is_mine();
        if (team == mine || !can || !tess_team_try_lock(team))
            continue;
        tess_team_progress(team);
        tess_team_unlock(team);
    }
    atomic_flag_clear_explicit(&rt->list_lock, memory_order_release);
}

/* Shows on the board what this rank waits for and who has not come, for whoever watches from outside. */
static void show_wait(const tess_work *work, uint64_t since_ns)
{
    tess_team *team = work->team;
    uint64_t missing[JOB_RANK_WORDS] = {0};
    int ranks[JOB_MAX_RANKS], n = team->size > 1 ? team->backend->missing(work, ranks) : 0;
    for (int i = 0; i < n; i++)
        missing[team->ranks[ranks[i]] / 64] |= UINT64_C(1) << team->ranks[ranks[i]] % 64;
    tess_board_wait(team->runtime->row, &work->fp, team->name, since_ns, missing);
}

/* A deadline that was set for a team holds as it is; the job's grows with what is done. */
static double deadline_of(const tess_work *work)
{
    const tess_team *team = work->team;
    const tess_runtime *rt = team->runtime;
    if (team->timeout_s != rt->timeout_s)
        return team->timeout_s;
    char phase[TESS_TRACE_PHASE_BYTES];
    tess_board_phase_of(rt->row, phase);
    return watchdog_deadline(rt->timeout_s, phase, work->fp.count, bytes_of(work), team->bytes_per_s);
}

/* On the board, and where it outlives everybody. */
static void show_life(const tess_runtime *rt)
{
    uint64_t now_ns = tess_os_now_ns();
    atomic_store_explicit(&rt->row->heartbeat_ns, now_ns, memory_order_relaxed);
    atomic_store_explicit(&rt->ring->alive_ns, now_ns, memory_order_relaxed);
}

/* The team is locked. Afterwards the work is done, well or not. */
static void wait_for(tess_work *work, double timeout_s)
{
    tess_team *team = work->team;
    tess_runtime *rt = team->runtime;
    if (timeout_s <= 0)
        timeout_s = deadline_of(work);
    double waited_s = 0, last_s = 0;
    uint64_t since_ns = 0;
    bool has_slept = false;
    while (!work->done) {
        if (tess_work_look(work, has_slept))
            break;
        /* A job that was stopped with ctrl-Z, or a machine that slept, has not waited: a gap counts as a second. */
        double now_s = tess_os_now_s(), gap_s = last_s > 0 ? now_s - last_s : 0;
        waited_s += gap_s < 1 ? gap_s : 1;
        last_s = now_s;
        show_life(rt);
        team->n_sleeps += !has_slept;
        has_slept = true;
        uint32_t ticket = tess_job_sleep_begin(&rt->job, rt->rank);
        help_other_teams(rt, team);
        if (rt->processes != NULL)
            tess_wire_poll();
        tess_team_progress(team);
        if (!work->done)
            tess_work_look_for_trouble(work, waited_s, timeout_s);
        if (since_ns == 0)
            since_ns = tess_os_now_ns();
        if (!work->done && waited_s >= shown_s)
            show_wait(work, since_ns);
        if (!work->done) {
            double left_ns = (timeout_s - waited_s) * 1e9;
            uint64_t most_ns = rt->processes != NULL ? wire_sleep_ns : longest_sleep_ns;
            uint64_t sleep_ns = left_ns < (double)most_ns ? (left_ns > 1000 ? (uint64_t)left_ns : 1000) : most_ns;
            tess_job_sleep(&rt->job, rt->rank, ticket, sleep_ns);
        }
        tess_job_sleep_end(&rt->job, rt->rank);
    }
    if (waited_s >= shown_s)
        tess_board_wait_over(rt->row, &work->fp);
}

/* ---- Handles ---- */
static tess_status repeat_error(const tess_team *team)
{
    return TESS_FAIL(team->broken, "%s", team->error);
}

tess_status tess_work_begin(tess_team *team, tess_trace_op kind, const void *call_site, tess_work **out)
{
    bool message = kind == TESS_TRACE_SEND || kind == TESS_TRACE_RECV;
    tess_team_lock(team);
    while (team->broken == TESS_OK && !message && team->n_in_flight >= CONTROL_IN_FLIGHT)
        wait_for(team->head, 0);
    if (team->broken != TESS_OK) {
        tess_team_unlock(team);
        return repeat_error(team);
    }
    tess_work *work = team->spare;
    if (work != NULL) {
        team->spare = work->next;
    } else {
        void *memory;
        tess_status status = tess_mem_alloc(team->runtime->mem, TESS_POOL_MISC, sizeof(*work), "work handle", &memory);
        if (status != TESS_OK) {
            tess_team_unlock(team);
            return status;
        }
        work = memory;
    }
    memset(work, 0, sizeof(*work));
    work->team = team;
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

tess_status tess_work_submit(tess_work *work, tess_work **handle)
{
    tess_status (*submit)(tess_work *, tess_work **) = work->team->runtime->submit;
    return submit != NULL ? submit(work, handle) : tess_work_post(work, handle);
}

tess_status tess_work_post(tess_work *work, tess_work **handle)
{
    tess_team *team = work->team;
    work->blocks = handle == NULL;
    if (tess_work_is_message(work)) {
        work->fp.sequence = team->n_messages++;
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
        team->backend->start(work);
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
    return tess_work_post(work, handle);
}

tess_status tess_work_wait(tess_work **handle, double timeout_s)
{
    TESS_CHECK(handle != NULL && *handle != NULL, TESS_E_INVALID, "tess_work_wait: there is no work");
    tess_work *work = *handle;
    tess_team *team = work->team;
    *handle = NULL;
    tess_team_lock(team);
    if (!work->done)
        wait_for(work, timeout_s);
    tess_status status = work->status;
    if (status != TESS_OK)
        repeat_error(team);
    release(work);
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
    release(work);
    tess_team_unlock(team);
}
