/* Runs the watchdog's rounds: which ranks others wait for, what they are doing, when this is reported, and how ranks
 * end. */
#include "control/launch/watchdog/watchdog.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/os.h"
#include "base/text/text.h"
#include "job/rank_end.h"
#include "control/launch/watchdog/watchdog_impl.h"

/* processes that are examined at once; if more ranks are late, the reason is the same, and looking costs time */
enum { MOST_LOOKED_AT = 8 };

static const uint64_t often_ns = 20000000; /* more frequent looks are skipped */
/* time between looks after which this process was stopped, or the machine slept */
static const uint64_t gap_ns = 500000000;
static const uint64_t fresh_ns = 200000000;  /* greatest age of a wait that is seen for the first time */
static const uint64_t apart_ns = 100000000;  /* time between the two looks at a process */
static const uint64_t again_ns = 1000000000; /* time between such pairs of looks */
static const uint64_t first_pause_ns = 30000000000, change_pause_ns = 5000000000;
static const uint64_t open_ns = 50000000; /* longest time until a kill appears in the system's counters */
static const double first_look_share = 0.75;

tess_status tess_watchdog_create(tess_mem *mem, const tess_job *job, const tess_watchdog_options *options,
                                 tess_watchdog **watchdog)
{
    void *memory;
    size_t world = (size_t)job->world, words = tess_bits_words(job->world);
    size_t bytes = sizeof(tess_watchdog) + world * (sizeof(watchdog_stall) + sizeof(watchdog_death) + sizeof(int)) +
                   words * sizeof(uint64_t);
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, bytes, "watchdog", &memory));
    memset(memory, 0, bytes);
    TESS_AUTO(tess_watchdog_destroy) tess_watchdog *w = memory;
    w->mem = mem;
    w->job = job;
    w->options = *options;
    w->patience.soft_s = options->soft_s;
    w->patience.timeout_s = options->timeout_s;
    w->probed = -1;
    w->probe.fd = -1;
    w->stalls = (watchdog_stall *)(w + 1);
    w->deaths = (watchdog_death *)(w->stalls + world);
    w->awaited = (uint64_t *)(w->deaths + world);
    w->stopped = (int *)(w->awaited + words);
    tess_oom_begin(&w->oom);
    TESS_TRY(watchdog_waits_create(mem, job->world, &w->waits));
    TESS_TRY(watchdog_stragglers_begin(mem, job, &w->stragglers));
    *watchdog = TESS_GIVE(w);
    return TESS_OK;
}

void tess_watchdog_destroy(tess_watchdog **watchdog)
{
    tess_watchdog *w = *watchdog;
    if (w == NULL)
        return;
    if (w->probed >= 0)
        tess_stack_cancel(&w->probe);
    tess_oom_end(&w->oom);
    tess_pace_destroy(&w->stragglers.pace);
    watchdog_waits_free(w->mem, &w->waits);
    tess_mem_drop(watchdog);
}

/* ---- A stall ---- */
static watchdog_kind kind_of(const tess_watchdog *w, int rank)
{
    tess_board_copy row;
    tess_board_export(&w->job->rows[rank], &row);
    if (row.wait_age_ns != 0) /* the rank itself waits, in a circle, and no phase takes that long */
        return WATCHDOG_TRAINING;
    return watchdog_kind_of(row.state == JOB_RANK_ABSENT ? NULL : row.phase);
}

static uint64_t waited_ns(const watchdog_stall *stall, uint64_t now_ns)
{
    return now_ns > stall->since_ns ? now_ns - stall->since_ns : 0;
}

/* Begins a stall. If the previous rank in a chain of waits has just come, the part of the wait that this rank causes
 * begins now. */
static void see_stall(tess_watchdog *w, const tess_missed *missed, uint64_t now_ns)
{
    watchdog_stall *stall = &w->stalls[missed->rank];
    if (!stall->is_on) {
        bool is_old = missed->waiter >= 0 && now_ns > missed->since_ns + fresh_ns;
        *stall = (watchdog_stall){.is_on = true, .since_ns = is_old ? now_ns : missed->since_ns};
    }
    stall->waiter = missed->waiter;
    stall->is_seen = true;
}

static bool job_goes_on(const tess_watchdog *w, int rank)
{
    const tess_job_row *row = &w->job->rows[rank];
    return atomic_load(&w->job->header->first_lost) < 0 && atomic_load(&row->ended) == 0 &&
           atomic_load(&row->broken_team) == 0;
}

/* Ends a stall, because the rank has come. If no rank waits any more because the job ends, the finding stays on the
 * board. */
static void end_stall(tess_watchdog *w, int rank, uint64_t now_ns)
{
    watchdog_stall *stall = &w->stalls[rank];
    double lasted_s = (double)waited_ns(stall, now_ns) * 1e-9;
    stall->is_on = false;
    if (w->probed == rank) {
        tess_stack_cancel(&w->probe);
        w->probed = -1;
    }
    bool waiter_failed = stall->waiter >= 0 && !job_goes_on(w, stall->waiter);
    if (!job_goes_on(w, rank) || waiter_failed)
        return;
    watchdog_patience_learn(&w->patience, kind_of(w, rank), lasted_s, (double)now_ns * 1e-9);
    if (stall->finding.situation != TESS_RANK_WELL)
        tess_board_situation(&w->job->rows[rank], TESS_RANK_WELL, "");
    if (stall->reported != TESS_RANK_WELL)
        watchdog_report_came(w, rank, lasted_s);
}

/* Examines the device. A rank that sleeps or spins in a call of its device's driver waits for work that it enqueued
 * on the device. */
static void look_at_device(const tess_watchdog *w, int rank, watchdog_finding *finding)
{
    char text[JOB_WHY_BYTES - 32];
    uint64_t since_ns;
    bool may_wait = finding->situation == TESS_RANK_SLEEPING || finding->situation == TESS_RANK_COMPUTING;
    if (may_wait && tess_board_describe_device(w->job, rank, text, sizeof(text), &since_ns) > 0)
        snprintf(finding->why, sizeof(finding->why), "waiting for its device: %s", text);
}

/* Looks twice at the rank's process, a moment apart, and again every second. */
static void look_into(tess_watchdog *w, int rank, uint64_t now_ns)
{
    watchdog_stall *stall = &w->stalls[rank];
    tess_process_facts now;
    watchdog_row row = {.awaited = w->awaited, .world = w->job->world};
    if (w->probed == rank || now_ns < stall->look_ns)
        return;
    tess_os_process_facts(watchdog_pid_of(w, rank), &now);
    tess_os_facts_keep_call(&stall->first, &now);
    stall->is_looked_at = !stall->is_looked_at;
    stall->look_ns = now_ns + (stall->is_looked_at ? apart_ns : again_ns);
    if (stall->is_looked_at) {
        stall->first = now;
        return;
    }
    tess_board_export(&w->job->rows[rank], &row.copy);
    tess_board_export_awaited(w->job, rank, w->awaited);
    watchdog_classify(&row, &stall->first, &now, &stall->finding);
    look_at_device(w, rank, &stall->finding);
    tess_board_situation(&w->job->rows[rank], stall->finding.situation, stall->finding.why);
}

static bool is_due(const tess_watchdog *w, watchdog_stall *stall, uint64_t now_ns)
{
    if (stall->finding.situation == TESS_RANK_WELL)
        return false;
    if (w->options.waits_on && !stall->deadline_reported &&
        (double)waited_ns(stall, now_ns) * 1e-9 >= w->options.timeout_s) {
        stall->deadline_reported = true;
        return true;
    }
    if (stall->reported == TESS_RANK_WELL)
        return true;
    uint64_t pause_ns = stall->reported != stall->finding.situation ? change_pause_ns : stall->pause_ns;
    return now_ns - stall->reported_ns >= pause_ns;
}

/* Whether the stack can explain the stall: the process runs, and does not wait in a collective. */
static bool needs_stack(tess_situation situation)
{
    return situation == TESS_RANK_COMPUTING || situation == TESS_RANK_SLEEPING || situation == TESS_RANK_LOADING_DATA ||
           situation == TESS_RANK_BLOCKED_IN_IO || situation == TESS_RANK_NOT_JOINED;
}

static void report(tess_watchdog *w, const int *due, int n, uint64_t now_ns)
{
    watchdog_stall *first = &w->stalls[due[0]];
    bool is_new = first->reported != first->finding.situation;
    watchdog_report_stall(w, due, n, (double)waited_ns(first, now_ns) * 1e-9);
    for (int i = 0; i < n; i++) {
        watchdog_stall *stall = &w->stalls[due[i]];
        stall->pause_ns = stall->pause_ns == 0 ? first_pause_ns : stall->pause_ns * 2;
        stall->reported = stall->finding.situation;
        stall->reported_ns = now_ns;
    }
    if (!is_new || w->probed >= 0 || !needs_stack(first->finding.situation))
        return;
    w->probed = due[0];
    tess_stack_begin(&w->probe, watchdog_pid_of(w, due[0]), first->first.thread.tid);
}

static void look_at_stalls(tess_watchdog *w, uint64_t now_ns)
{
    int due[MOST_LOOKED_AT], n_due = 0, n_looked_at = 0;
    for (int i = 0; i < w->waits.n && n_looked_at < MOST_LOOKED_AT; i++) {
        int rank = w->waits.list[i].rank;
        watchdog_stall *stall = &w->stalls[rank];
        double waited_s = (double)waited_ns(stall, now_ns) * 1e-9;
        if (waited_s < w->options.soft_s * first_look_share)
            continue; /* no limit is shorter, so nothing is due */
        double limit_s = watchdog_patience_limit(&w->patience, kind_of(w, rank), (double)now_ns * 1e-9);
        if (waited_s < limit_s * first_look_share)
            continue;
        n_looked_at++;
        look_into(w, rank, now_ns);
        if (waited_s >= limit_s && is_due(w, stall, now_ns))
            due[n_due++] = rank;
    }
    if (n_due > 0)
        report(w, due, n_due, now_ns);
}

static void look_at_waits(tess_watchdog *w, uint64_t now_ns)
{
    int world = (int)w->job->header->world;
    watchdog_find_waits(w->job, w->joined_ns, &w->waits);
    for (int i = 0; i < w->waits.n; i++)
        see_stall(w, &w->waits.list[i], now_ns);
    for (int r = 0; r < world; r++) {
        watchdog_stall *stall = &w->stalls[r];
        if (stall->is_on && !stall->is_seen)
            end_stall(w, r, now_ns);
        stall->is_seen = false;
    }
    if (atomic_load(&w->job->header->first_lost) < 0 && !w->halt.is_on)
        look_at_stalls(w, now_ns);
}

/* ---- Ends ---- */
static void settle_death(tess_watchdog *w, int rank, uint64_t now_ns)
{
    watchdog_death *death = &w->deaths[rank];
    tess_oom_answer answer;
    char why[JOB_WHY_BYTES], bytes[32];
    if (death->ended_ns == 0)
        return;
    tess_oom_ask(&w->oom, death->pid, &answer);
    if (answer.killed) {
        size_t at = tess_text_add(why, sizeof(why), 0, "killed by the system because memory ran out");
        if (answer.held_bytes > 0)
            at = tess_text_add(why, sizeof(why), at, ": it held %s",
                               tess_format_bytes((double)answer.held_bytes, bytes, sizeof(bytes)));
        if (answer.held_bytes > 0 && answer.limit_bytes > 0)
            tess_text_add(why, sizeof(why), at, ", its control group may use %s",
                          tess_format_bytes((double)answer.limit_bytes, bytes, sizeof(bytes)));
        tess_board_situation(&w->job->rows[rank], TESS_RANK_OOM_KILLED, why);
    }
    if (answer.killed || now_ns - death->ended_ns > open_ns)
        death->ended_ns = 0;
}

void tess_watchdog_ended(tess_watchdog *w, int rank, int pid, int wait_status, bool asked)
{
    if (w == NULL || asked || (WIFEXITED(wait_status) && tess_ending_leaves_finding(w->job, rank)))
        return;
    tess_job_row *row = &w->job->rows[rank];
    bool left = atomic_load(&row->state) == JOB_RANK_LEFT;
    if (WIFSIGNALED(wait_status)) {
        int number = WTERMSIG(wait_status);
        bool crashed = number != SIGKILL && number != SIGTERM && number != SIGINT;
        tess_board_situation(row, crashed ? TESS_RANK_CRASHED : TESS_RANK_KILLED, strsignal(number));
    } else {
        bool well = left && WEXITSTATUS(wait_status) == 0;
        tess_board_situation(row, well ? TESS_RANK_LEFT : TESS_RANK_EXITED, "");
    }
    if (WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL)
        w->deaths[rank] = (watchdog_death){.pid = pid, .ended_ns = tess_os_now_ns()};
    settle_death(w, rank, tess_os_now_ns());
}

void tess_watchdog_settle(tess_watchdog *w)
{
    uint64_t begin_ns = tess_os_now_ns();
    for (int r = 0; w != NULL && r < (int)w->job->header->world; r++)
        while (w->deaths[r].ended_ns != 0 && tess_os_now_ns() - begin_ns < open_ns) {
            settle_death(w, r, tess_os_now_ns());
            usleep(2000);
        }
}

/* ---- The round ---- */
static void look_at_probe(tess_watchdog *w, uint64_t now_ns)
{
    tess_stack stack;
    if (w->probed < 0 || !tess_stack_poll(&w->probe, &stack))
        return;
    watchdog_report_stack(w, w->probed, (double)waited_ns(&w->stalls[w->probed], now_ns) * 1e-9, &stack);
    w->stalls[w->probed].is_looked_at = false; /* holding the process has changed what a second look would show */
    w->probed = -1;
}

static void look_at_pace(tess_watchdog *w, uint64_t now_ns)
{
    char line[WATCHDOG_STRAGGLER_LINE];
    int before = w->stragglers.rank;
    if (!watchdog_stragglers_look(&w->stragglers, now_ns, line))
        return;
    int rank = w->stragglers.rank >= 0 ? w->stragglers.rank : before;
    int64_t step = (int64_t)atomic_load(&w->job->rows[rank].n_steps);
    tess_notices_add(&w->job->header->notices, TESS_NOTICE_SLOW, rank, step, line);
    tess_report_line(&w->options.reporter, "%s", line);
}

void tess_watchdog_look(tess_watchdog *w)
{
    uint64_t now_ns = tess_os_now_ns();
    if (w == NULL || now_ns - w->looked_ns < often_ns)
        return;
    /* If this process did not run, the job may also have stood still. Of a gap between looks, only gap_ns counts as
     * waiting. While all ranks are stopped, no rank waits. */
    bool stood_still = w->looked_ns != 0 && now_ns - w->looked_ns > gap_ns;
    uint64_t idle_ns = w->halt.is_on ? now_ns - w->looked_ns : stood_still ? now_ns - w->looked_ns - gap_ns : 0;
    for (int r = 0; r < (int)w->job->header->world; r++) {
        w->stalls[r].since_ns += idle_ns;
        if (w->joined_ns == 0 && atomic_load(&w->job->rows[r].state) == JOB_RANK_JOINED)
            w->joined_ns = now_ns;
        settle_death(w, r, now_ns);
    }
    w->looked_ns = now_ns;
    if (w->options.soft_s <= 0)
        return;
    watchdog_look_at_halt(w, now_ns);
    look_at_waits(w, now_ns);
    look_at_probe(w, now_ns);
    look_at_pace(w, now_ns);
}
