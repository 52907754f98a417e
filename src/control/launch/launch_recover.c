/* Recovers a job that lost a rank. The other ranks leave their collectives, free their part of the job's memory and
 * wait (rejoin.c). The launcher then resets that memory and replaces the processes that ended, and all ranks join as
 * at the first start. Persistent memory (job/persist/persist.h) is not touched; the ranks agree on where to
 * continue. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/os/os.h"
#include "job/rank_end.h"
#include "control/launch/launcher_impl.h"

static tess_action ask(launcher *l)
{
    launch_report_failure(l);
    tess_failure failure;
    tess_ending_facts(&l->job, l->cause, l->result->failed_rank, l->result->exit_code, l->result->report, &failure);
    if (l->failing.ended_here)
        failure.signal = 0;
    failure.stopping = failure.stopping || l->stop_signal != 0;
    tess_launch_decision decision = {.action = TESS_ACTION_STOP};
    l->options.decide(l->options.self, &failure, &decision);
    l->result->reported = l->result->reported || decision.reported;
    if (decision.line != NULL)
        tess_notices_add(&l->job.header->notices,
                         decision.action == TESS_ACTION_RESTART ? TESS_NOTICE_RESTARTED : TESS_NOTICE_ENDED,
                         failure.rank, failure.step, decision.line);
    return decision.action;
}

void launch_give_up(launcher *l)
{
    tess_job_header *header = l->job.header;
    if (atomic_exchange(&header->is_over, 1) == 0)
        tess_os_futex_wake((const uint32_t *)(const void *)&header->epoch, INT32_MAX);
}

/* Reports the earlier failure when its outcome is known, unless it was reported already. */
static void note(launcher *l, tess_notice_kind kind, int64_t step, const char *rest)
{
    char line[2304];
    if (!l->recovery.unreported)
        return;
    l->recovery.unreported = false;
    snprintf(line, sizeof(line), "%s; %s", l->recovery.report, rest);
    launch_notice(l, kind, l->recovery.rank, step, line);
}

static void report_resumed(launcher *l)
{
    char rest[200], who[64] = "";
    int64_t step = atomic_load(&l->job.header->resumed_step);
    if (!l->recovery.unreported || step < 0)
        return;
    if (l->recovery.n_replaced > 1)
        snprintf(who, sizeof(who), "%d ranks ", l->recovery.n_replaced);
    snprintf(rest, sizeof(rest), "%sreplaced in %.1f s, going on from step %lld", who,
             tess_os_now_s() - l->recovery.since_s, (long long)step);
    note(l, TESS_NOTICE_REPLACED, step, rest);
}

static void decide(launcher *l)
{
    l->failing.decided = true;
    note(l, TESS_NOTICE_LOST, -1, "a rank was lost again before all had met");
    l->result->action = ask(l);
    if (l->result->action != TESS_ACTION_RESPAWN) {
        launch_give_up(l);
        return;
    }
    l->recovery = (launch_recovery){.gathering = true, .since_s = l->failing.failed_s, .rank = l->result->failed_rank};
    snprintf(l->recovery.report, sizeof(l->recovery.report), "%s", l->result->report);
}

/* Counts the ranks that run but are not ready yet. `end`: also kills them. */
static int count_busy(const launcher *l, bool end)
{
    int n = 0;
    for (int r = 0; r < l->n_ranks; r++)
        if (l->pids[r] != 0 && atomic_load(&l->job.rows[r].awaits) == 0) {
            n++;
            if (end)
                kill(l->pids[r], SIGKILL);
        }
    return n;
}

static void forget_failure(launcher *l)
{
    l->failing = (launch_failing){0};
    l->suspect = l->cause = l->stuck = -1;
    l->result->failed_rank = -1;
    l->result->exit_code = 0;
    l->result->action = TESS_ACTION_STOP;
    l->result->report[0] = '\0';
    l->result->reported = false;
}

static tess_status begin_anew(launcher *l)
{
    launch_close_watchdog(l);
    l->recovery.gathering = false;
    l->recovery.n_replaced = l->n_ranks - l->n_running;
    l->recovery.unreported = true;
    l->result->n_recovered++;
    forget_failure(l);
    TESS_TRY(tess_job_reset(&l->job));
    TESS_TRY(launch_open_watchdog(l));
    return launch_start_ranks(l);
}

void launch_recover(launcher *l)
{
    report_resumed(l);
    /* There is no failure to decide about if the ranks that the others lost had been asked to stop, or left without
     * a report. */
    bool in_vain = l->failing.failed_s == 0 && !l->recovery.gathering && l->n_running > 0 && count_busy(l, false) == 0;
    if (l->killed || l->timed_out || in_vain) {
        launch_give_up(l);
        l->recovery.gathering = false;
        return;
    }
    if (l->options.decide != NULL && !l->failing.decided && l->cause >= 0 && launch_is_settled(l))
        decide(l);
    if (!l->recovery.gathering)
        return;
    if (count_busy(l, tess_os_now_s() - l->failing.failed_s > l->options.grace_s) > 0)
        return;
    tess_status status = begin_anew(l);
    if (status == TESS_OK)
        return;
    snprintf(l->result->report, sizeof(l->result->report), "%s; it could not be replaced: %s", l->recovery.report,
             tess_error_message());
    l->result->exit_code = EXIT_FAILURE;
    launch_give_up(l);
    launch_kill_all(l);
}
