/* Finds how a rank ended, and the root cause of a failure. */
#include <signal.h>
#include <sys/wait.h>

#include "base/os/os.h"
#include "job/rank_end.h"
#include "control/launch/ending_record.h"
#include "control/launch/launcher_impl.h"

static const double settle_s = 0.06;

/* Finds the root cause. A suspect that has left the job but still runs may report the cause through its exit code. A
 * suspect that waits for the decision has no more to report. */
void launch_find_cause(launcher *l)
{
    if (l->suspect < 0)
        return;
    l->failing.ended_here = l->failing.terminated || l->killed;
    int code;
    l->suspect = tess_ending_find(&l->job, l->suspect, !l->failing.ended_here, &code);
    const tess_job_row *row = &l->job.rows[l->suspect];
    if (l->pids[l->suspect] != 0 && atomic_load(&row->awaits) == 0)
        return;
    l->result->failed_rank = l->suspect;
    l->result->exit_code = code != 0 ? code : l->failing.failed_code;
    l->stuck = tess_ending_stuck(&l->job, l->suspect);
    if (l->stuck >= 0 && l->pids[l->stuck] != 0)
        kill(l->pids[l->stuck], SIGKILL); /* the grace is only for ranks that can use it */
    l->cause = l->suspect;
    l->suspect = -1;
}

void launch_report_failure(launcher *l)
{
    char *text = l->result->report;
    size_t size = sizeof(l->result->report);
    if (l->cause < 0 || text[0] != '\0')
        return;
    if (l->stuck >= 0)
        l->result->failed_rank = l->stuck;
    tess_ending_report(&l->job, l->cause, l->stuck, text, size);
}

void launch_note_end(launcher *l, int rank, int state)
{
    int pid = l->pids[rank];
    l->pids[rank] = 0;
    l->n_running--;
    l->died[rank] = WIFSIGNALED(state);
    int code = tess_ending_code(state);
    if (rank == 0)
        l->result->rank0_code = code;
    /* Ranks of Tessera exit with 130 for any signal that asked them to stop. A replacement that the signal kills
     * before it can handle it counts as lost again, because the other ranks wait for it. */
    bool returns = l->recovery.unreported && atomic_load(&l->job.rows[rank].state) == JOB_RANK_ABSENT;
    bool by_signal = tess_stop_ended(code, l->stop_signal) && !returns;
    bool stopped = by_signal || (atomic_load(&l->job.header->stop) != 0 && code == 128 + SIGINT);
    if (stopped)
        l->stop_code = by_signal && WIFSIGNALED(state) ? 128 + l->stop_signal : code;
    /* A rank that is asked to stop before it has joined may be killed by the signal. Ranks that lose it have not
     * failed themselves. */
    int cause = tess_ending_cause(&l->job, rank);
    stopped = stopped || (WIFEXITED(state) && cause != rank && l->stopped[cause]);
    l->stopped[rank] = stopped;
    bool asked = stopped || l->killed || l->failing.terminated || l->recovery.gathering || rank == l->stuck;
    tess_watchdog_ended(l->watchdog, rank, pid, state, asked);
    if (l->record.asked != NULL)
        l->record.asked[rank] = asked;
    bool failed = tess_ending_note(&l->job, rank, state, stopped || l->recovery.gathering);
    if (failed && l->failing.failed_s == 0 && !l->killed) {
        l->failing.failed_s = tess_os_now_s();
        l->failing.failed_code = code;
        l->suspect = rank;
    }
}

bool launch_is_settled(const launcher *l)
{
    return tess_os_now_s() - l->failing.failed_s >= settle_s;
}

void launch_report_kill(launcher *l)
{
    if (l->cause < 0 || l->n_running == 0 || l->result->reported || l->options.reporter.line == NULL ||
        l->recovery.gathering || atomic_load(&l->job.rows[l->cause].signal) == 0 || !launch_is_settled(l))
        return;
    launch_report_failure(l);
    tess_report_line(&l->options.reporter, "%s", l->result->report);
    l->result->reported = true;
}

void launch_note_failure(const launcher *l)
{
    tess_launch_result *result = l->result;
    if (result->exit_code == 0 && result->failed_rank < 0)
        return;
    const bool blames = result->failed_rank >= 0;
    result->has_record = true;
    launch_ending_record(&l->job,
                         &(launch_ending){.cause = l->cause >= 0 ? l->cause : result->failed_rank,
                                          .rank = result->failed_rank,
                                          .exit_code = result->exit_code,
                                          .asked = result->asked_to_stop && !blames,
                                          .ended_here = blames && l->failing.ended_here,
                                          .report = result->report},
                         &result->record);
}

tess_status launch_open_watchdog(launcher *l)
{
    tess_watchdog_options options = {.soft_s = l->options.soft_timeout_s,
                                     .timeout_s = l->options.timeout_s,
                                     .waits_on = l->options.waits_on,
                                     .pids = l->pids,
                                     .reporter = l->options.reporter};
    TESS_TRY(tess_watchdog_create(l->mem, &l->job, &options, &l->watchdog));
    tess_status status = watchdog_job_record_begin(&l->record, l->mem, l->n_ranks, false);
    if (status != TESS_OK)
        tess_watchdog_destroy(&l->watchdog);
    return status;
}

void launch_close_watchdog(launcher *l)
{
    tess_watchdog_settle(l->watchdog);
    launch_report_failure(l);
    watchdog_job_record_end(&l->record, &l->job, l->result);
    tess_watchdog_destroy(&l->watchdog);
    watchdog_job_record_free(&l->record);
}
