/* Progresses and completes a team's operations. */
#include <stdio.h>

#include "base/os/os.h"
#include "comm/comm_impl.h"
#include "job/patience.h"

static const uint64_t large_bytes = 1 << 20; /* minimum size of an operation by which link speed is measured */

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
    if (state == TESS_TRACE_COMPLETED && work->fp.kind < TESS_TRACE_TEAM_SPLIT)
        tess_traffic_moved(&rt->row->traffic[work->team->traffic], work->received,
                           work->started_ns != 0 ? now_ns - work->started_ns : 0);
}

/* Measures the speed of links between hosts, in operations during which the caller does nothing else. */
static void note_speed(const tess_work *work)
{
    double *known = &work->team->bytes_per_s;
    if (work->started_ns == 0 || !work->blocks || work->status != TESS_OK || tess_work_bytes(work) < large_bytes ||
        tess_team_is_local(work->team))
        return;
    double seconds = (double)(tess_os_now_ns() - work->started_ns) * 1e-9;
    *known = watchdog_learn_speed(*known, (double)tess_work_bytes(work) / seconds);
}

static void finish(tess_work *work)
{
    work->done = true;
    if (work->device.is)
        tess_ondevice_over(work);
    note_speed(work);
    tess_work_record(work, work->status == TESS_OK ? TESS_TRACE_COMPLETED : TESS_TRACE_FAILED);
    if (work->detached)
        tess_work_release(work);
}

tess_status tess_team_break(tess_team *team, tess_status status, int blames)
{
    if (team->broken != TESS_OK)
        return team->broken;
    team->broken = status;
    snprintf(team->error, sizeof(team->error), "%s", tess_error_message());
    /* A rank that blames itself has failed alone, before any meeting (tess_runtime_report). */
    tess_board_error(team->runtime->row, team->error, blames == team->runtime->rank ? -1 : blames);
    atomic_store(&team->runtime->row->broken_team, team->hash);
    if (team->backend->give_up != NULL)
        team->backend->give_up(team);
    tess_ondevice_settle(team);
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
        if (work->link->cancel != NULL)
            work->link->cancel(work);
        finish(work);
    }
    return status;
}

void tess_team_progress(tess_team *team)
{
    while (team->head != NULL) {
        tess_work *work = team->head;
        if (!work->backend->advance(work))
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
        if (!work->link->advance(work)) {
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

bool tess_message_fail_mismatch(tess_work *work, const tess_fingerprint *sent, const tess_fingerprint *wanted)
{
    const tess_team *team = work->team;
    int sender = sent == &work->fp ? team->rank : work->root, receiver = sent == &work->fp ? work->root : team->rank;
    char a[256], b[256];
    work->status = TESS_FAIL(TESS_E_MISMATCH, "team '%s': two ranks disagree: rank %d called %s; rank %d called %s",
                             team->name, team->ranks[sender], tess_fingerprint_format(sent, team->name, a, sizeof(a)),
                             team->ranks[receiver], tess_fingerprint_format(wanted, team->name, b, sizeof(b)));
    return true;
}
