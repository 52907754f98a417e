/* Waits for a work. trouble.c handles what can go wrong meanwhile. */
#include <string.h>

#include "base/os/os.h"
#include "comm/comm_impl.h"
#include "job/patience.h"

static const double shown_s = 0.02; /* a wait longer than this is shown on the board */

/* Progresses other teams as well: a peer may wait for our part there, because callers need no order between teams. */
static void help_other_teams(tess_runtime *rt, tess_team *mine)
{
    if (atomic_flag_test_and_set_explicit(&rt->teams_lock, memory_order_acquire))
        return;
    for (tess_team *team = rt->teams; team != NULL; team = team->next) {
        bool can = team->backend->is_mine == NULL || team->backend->is_mine();
        if (team == mine || !can || !tess_team_try_lock(team))
            continue;
        tess_team_progress(team);
        tess_team_unlock(team);
    }
    tess_list_unlock(&rt->teams_lock);
}

/* Shows on the board what this rank waits for, and which ranks have not come. */
static void show_wait(const tess_work *work, uint64_t since_ns)
{
    tess_team *team = work->team;
    uint64_t *missing = team->lists.set;
    int *ranks = team->lists.awaited, n = team->size > 1 ? tess_work_missing(work, ranks) : 0;
    memset(missing, 0, tess_bits_words(team->runtime->world) * sizeof(uint64_t));
    for (int i = 0; i < n; i++)
        tess_bits_add(missing, team->ranks[ranks[i]]);
    tess_board_wait(&team->runtime->job, team->runtime->rank, &work->fp, team->name, since_ns, missing);
}

/* Returns the deadline. One that was set for the team applies unchanged; the job's depends on the phase and the size
 * of the operation. */
static double deadline_of(const tess_work *work)
{
    const tess_team *team = work->team;
    const tess_runtime *rt = team->runtime;
    if (team->timeout_s != rt->timeout_s)
        return team->timeout_s;
    char phase[TESS_TRACE_PHASE_BYTES];
    tess_board_phase_of(rt->row, phase);
    return watchdog_deadline(rt->timeout_s, phase, work->fp.count, tess_work_bytes(work), team->bytes_per_s);
}

void tess_work_wait_for(tess_work *work, double timeout_s)
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
        /* A gap between two checks counts as at most one second: the job was stopped with ctrl-Z, or the machine
         * slept. */
        double now_s = tess_os_now_s(), gap_s = last_s > 0 ? now_s - last_s : 0;
        waited_s += gap_s < 1 ? gap_s : 1;
        last_s = now_s;
        /* The time is written to the board, and to the ring, which may outlive the job. */
        uint64_t alive_ns = tess_os_now_ns();
        atomic_store_explicit(&rt->row->heartbeat_ns, alive_ns, memory_order_relaxed);
        atomic_store_explicit(&rt->ring->alive_ns, alive_ns, memory_order_relaxed);
        team->n_sleeps += !has_slept;
        has_slept = true;
        uint32_t ticket = tess_job_sleep_begin(&rt->job, rt->rank);
        help_other_teams(rt, team);
        if (rt->transport->poll != NULL)
            rt->transport->poll();
        tess_team_progress(team);
        if (!work->done)
            tess_work_look_for_trouble(work, waited_s, timeout_s);
        if (since_ns == 0)
            since_ns = tess_os_now_ns();
        if (!work->done && waited_s >= shown_s)
            show_wait(work, since_ns);
        if (!work->done) {
            double left_ns = (timeout_s - waited_s) * 1e9;
            uint64_t most_ns = tess_ondevice_sleep_ns(rt, rt->sleep_ns);
            uint64_t sleep_ns = left_ns < (double)most_ns ? (left_ns > 1000 ? (uint64_t)left_ns : 1000) : most_ns;
            tess_job_sleep(&rt->job, rt->rank, ticket, sleep_ns);
        }
        tess_job_sleep_end(&rt->job, rt->rank);
    }
    if (waited_s >= shown_s)
        tess_board_wait_over(rt->row, &work->fp);
    if (since_ns != 0)
        tess_traffic_waited(&rt->row->traffic[team->traffic], tess_os_now_ns() - since_ns);
}
