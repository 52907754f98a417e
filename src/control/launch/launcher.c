#include "control/launch/launcher.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/os/os.h"
#include "base/text/text.h"
#include "job/persist/persist.h"
#include "job/rank_end.h"
#include "control/launch/launch_room.h"
#include "control/launch/launcher_impl.h"

/* pauses between looks at the job; often_ns: while a failure is handled */
static const long seldom_ns = 50000000, often_ns = 2000000;

static void report_stop(const launcher *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void report_stop(const launcher *l, const char *format, ...)
{
    char line[320];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    launch_notice(l, TESS_NOTICE_STOP, -1, -1, line);
}

static void ask_to_stop(launcher *l, int signal, bool from_terminal)
{
    if (l->stop_signal != 0) {
        if (signal != SIGHUP) /* a closed terminal sends several SIGHUP, also after another request */
            launch_kill_all(l);
        return;
    }
    /* Some ranks must still join to save persistent memory; a signal would end them before that. */
    bool will_join =
        l->recovery.unreported || l->options.stops_at_once || (l->options.persist != NULL && l->options.n_before > 0);
    /* Ranks that look for requests finish their step and leave; the other ranks get a signal. */
    l->stop_signal = tess_stop_signal_of(signal);
    l->stop_s = tess_os_now_s();
    atomic_store(&l->job.header->stop, JOB_STOP_NOW);
    launch_ask_ranks(l, from_terminal, will_join);
    if (l->options.stop_grace_s <= 0)
        report_stop(l, "asked to stop (SIG%s): the ranks are told to end; a second signal ends them at once",
                    sigabbrev_np(signal));
    else
        report_stop(
            l,
            "asked to stop (SIG%s): the ranks have %g s to finish their step and save; a second signal ends them "
            "at once",
            sigabbrev_np(signal), l->options.stop_grace_s);
}

/* Waits for a signal. Returns false if none came in time. */
static bool wait_for_signal(launcher *l, long timeout_ns)
{
    struct timespec pause = {.tv_nsec = timeout_ns};
    siginfo_t info;
    int signal = sigtimedwait(&l->signals.watched, &info, &pause);
    if (signal == SIGUSR1 && !l->options.usr1_stops)
        launch_signal_all(l, SIGUSR1);
    else if (signal > 0 && signal != SIGCHLD)
        ask_to_stop(l, signal, info.si_code > 0);
    return signal > 0;
}

/* True if a child of this process has ended, a rank or another. Asking for each rank takes long if there are many. */
static bool any_ended(void)
{
    siginfo_t end = {0};
    return waitid(P_ALL, 0, &end, WEXITED | WNOHANG | WNOWAIT) == 0 && end.si_pid != 0;
}

static int reap_all(launcher *l)
{
    int n = 0;
    if (!any_ended())
        return 0;
    for (int r = 0; r < l->n_ranks; r++) {
        int state;
        if (l->pids[r] == 0 || waitpid(l->pids[r], &state, WNOHANG) != l->pids[r])
            continue;
        /* A ctrl-C that killed the child has arrived by now, and decides how the end is judged. */
        while (wait_for_signal(l, 0))
            ;
        launch_note_end(l, r, state);
        n++;
    }
    return n;
}

/* Reaps all children that have ended. A rank that was checked before it died may have ended a rank that was checked
 * later. So the cause is searched only when no more have ended. */
static void reap(launcher *l)
{
    while (reap_all(l) > 0)
        ;
    launch_find_cause(l);
}

static void report_timeout(launcher *l, double timeout_s)
{
    char *text = l->result->report;
    size_t size = sizeof(l->result->report);
    size_t at = tess_text_add(text, size, 0, "the job took longer than %.3g s", timeout_s);
    for (int r = 0; r < l->n_ranks && at + 120 < size; r++) {
        char state[256];
        if (l->pids[r] == 0)
            continue;
        at = tess_text_add(text, size, at, "; rank %d %s", r, tess_board_describe(&l->job, r, state, sizeof(state)));
    }
    l->result->exit_code = 124; /* exit code of timeout(1) */
}

static void check_deadlines(launcher *l, double begin_s, double timeout_s)
{
    double now_s = tess_os_now_s();
    if (l->failing.failed_s != 0 && !l->killed && !l->recovery.gathering) {
        double failed_for_s = now_s - l->failing.failed_s;
        if (!l->failing.terminated && failed_for_s >= l->options.grace_s) {
            l->failing.terminated = true;
            launch_signal_all(l, SIGTERM);
        } else if (l->failing.terminated && failed_for_s >= l->options.grace_s + TESS_KILL_AFTER_S) {
            launch_kill_all(l);
        }
    }
    if (l->stop_signal != 0 && !l->killed && l->options.stop_grace_s > 0 &&
        now_s - l->stop_s >= l->options.stop_grace_s) {
        l->overdue = true;
        report_stop(l,
                    "not done within %g s of being asked to stop: the ranks are killed, the newest complete checkpoint "
                    "stands",
                    l->options.stop_grace_s);
        launch_kill_all(l);
    }
    if (timeout_s > 0 && !l->killed && now_s - begin_s >= timeout_s) {
        if (l->failing.failed_s == 0)
            report_timeout(l, timeout_s);
        l->timed_out = true;
        launch_kill_all(l);
    }
}

/* Whether the main loop continues: ranks still run, or a recovery or decision is pending. */
static bool goes_on(const launcher *l)
{
    bool undecided = l->options.decide != NULL && l->cause >= 0 && !l->failing.decided && !l->killed;
    return l->n_running > 0 || l->recovery.gathering || undecided;
}

static void watch(launcher *l, double timeout_s)
{
    double begin_s = tess_os_now_s();
    reap(l);
    while (goes_on(l)) {
        /* The timeout is needed for the deadlines below, and for a child whose signal was merged with another
         * child's. */
        wait_for_signal(l, l->cause >= 0 || l->recovery.gathering ? often_ns : seldom_ns);
        reap(l);
        tess_watchdog_look(l->watchdog);
        watchdog_job_record_look(&l->record, &l->job);
        if (l->options.look != NULL)
            l->options.look(l->options.helpers);
        if (l->options.tick != NULL)
            l->options.tick(l->options.self, &l->job, l->pids);
        launch_recover(l);
        launch_report_kill(l);
        check_deadlines(l, begin_s, timeout_s);
    }
    launch_give_up(l);
}

/* Runs the ranks from their start to their end. */
static tess_status run_ranks(launcher *l, double timeout_s)
{
    int report[2] = {-1, -1};
    if (l->what.argv != NULL && pipe2(report, O_CLOEXEC) != 0)
        return tess_os_error("pipe", "for the ranks");
    l->what.report_fd = report[1];
    if (l->options.tick != NULL) /* a request to the ranks is on the board before their first step */
        l->options.tick(l->options.self, &l->job, l->pids);
    tess_status status = launch_start_ranks(l);
    tess_os_close(&report[1]);
    l->what.report_fd = -1;
    if (status == TESS_OK && l->what.argv != NULL)
        status = tess_child_started(l->what.argv[0], report[0]);
    if (status != TESS_OK)
        launch_kill_all(l);
    tess_os_close(&report[0]);
    watch(l, timeout_s);
    return status;
}

static void end_result(const launcher *l)
{
    tess_launch_result *result = l->result;
    result->stop_signal = l->stop_signal;
    result->left = true;
    for (int r = 0; r < l->n_ranks; r++)
        result->left = result->left && !l->died[r];
    result->asked_to_stop = l->stop_signal != 0 || atomic_load(&l->job.header->stop) == JOB_STOP_NOW;
    if ((l->stop_signal == 0 && l->stop_code == 0) || result->failed_rank >= 0 || l->timed_out)
        return;
    result->exit_code = l->stop_code != 0 ? l->stop_code : 128 + l->stop_signal;
    if (!l->killed)
        return;
    tess_text_add(result->report, sizeof(result->report), 0, TESS_STOPPED_BY_OPERATOR,
                  l->overdue ? TESS_STOPPED_LATE : TESS_STOPPED_TWICE);
    if (l->options.kept != NULL)
        l->options.kept(l->options.helpers, tess_ending_steps_done(&l->job), result->report, sizeof(result->report));
}

/* Creates what the launcher needs before a rank starts. release_job frees it, also after a failure. */
static tess_status prepare_job(launcher *l)
{
    const size_t n = (size_t)l->n_ranks;
    const tess_launch_options *options = &l->options;
    void *memory;
    tess_launch_room room;
    tess_launch_room_look(&room);
    TESS_TRY(tess_launch_room_check(&room, l->n_ranks));
    TESS_TRY(tess_mem_create(&l->mem));
    TESS_TRY(tess_mem_alloc_array(l->mem, TESS_POOL_MISC, n, sizeof(pid_t) + 2 * sizeof(bool), "processes of the ranks",
                                  &memory));
    l->pids = memory;
    l->stopped = (bool *)(l->pids + n);
    l->died = l->stopped + n;
    TESS_TRY(tess_job_create(l->n_ranks, &l->job));
    tess_job_keep_from_forks(&l->job, true); /* ranks that are started map it anew */
    l->job.header->launcher_pid = (int32_t)getpid();
    atomic_store(&l->job.header->recovers, options->decide != NULL);
    atomic_store(&l->job.header->epoch, (uint32_t)options->n_before);
    atomic_store(&l->job.header->stop, options->stops_at_once ? JOB_STOP_NOW : JOB_STOP_NO);
    if (options->notices != NULL)
        tess_notices_copy(&l->job.header->notices, options->notices);
    for (int r = 0; r < options->n_past; r++)
        if (r < l->n_ranks)
            l->job.past[r] = options->past[r];
        else
            l->job.header->faults_of_gone |= options->past[r].faults_before;
    return launch_open_watchdog(l);
}

static void release_job(launcher *l)
{
    tess_job_close(&l->job, true);
    tess_mem_free(l->mem, l->pids);
    tess_mem_destroy(&l->mem);
}

static tess_status run_job(int n_ranks, const launch_payload *what, const tess_launch_options *options,
                           double timeout_s, tess_launch_result *result)
{
    launcher l = {.n_ranks = n_ranks,
                  .what = *what,
                  .options = *options,
                  .result = result,
                  .suspect = -1,
                  .cause = -1,
                  .stuck = -1,
                  .job = {.fd = -1}};
    *result = (tess_launch_result){.failed_rank = -1};
    TESS_CHECK(options->persist == NULL || options->persist->n == n_ranks, TESS_E_INVALID,
               "tess_launch: persistent memory of %d ranks for %d", options->persist != NULL ? options->persist->n : 0,
               n_ranks);
    tess_status status = prepare_job(&l);
    if (status != TESS_OK) {
        release_job(&l);
        return status;
    }
    tess_child_block_signals(&l.signals);
    status = rank_output_open(l.mem, options->output,
                              &(output_ranks){.n = n_ranks, .attempt = options->n_before, .is_fixed = true},
                              &options->reporter, &l.output);
    if (status == TESS_OK)
        status = run_ranks(&l, timeout_s);
    rank_output_close(l.mem, &l.output);
    end_result(&l);
    launch_close_watchdog(&l);
    launch_note_failure(&l);
    tess_child_restore_signals(&l.signals);
    if (options->notices != NULL)
        tess_notices_copy(options->notices, &l.job.header->notices);
    for (int r = 0; r < n_ranks && r < options->n_past; r++)
        options->past[r] = l.job.past[r];
    release_job(&l);
    return status;
}

tess_status tess_launch(int n_ranks, char *const *argv, const tess_launch_options *options, tess_launch_result *result)
{
    TESS_CHECK(argv != NULL && argv[0] != NULL && options != NULL && result != NULL, TESS_E_INVALID,
               "tess_launch: there is no program");
    return run_job(n_ranks, &(launch_payload){.argv = argv}, options, 0, result);
}

tess_status tess_launch_function_with(int n_ranks, int (*fn)(void *context), void *context,
                                      const tess_launch_options *options, double timeout_s, tess_launch_result *result)
{
    TESS_CHECK(fn != NULL && options != NULL && result != NULL, TESS_E_INVALID,
               "tess_launch_function: there is no function");
    return run_job(n_ranks, &(launch_payload){.fn = fn, .context = context}, options, timeout_s, result);
}

tess_status tess_launch_function(int n_ranks, int (*fn)(void *context), void *context, double grace_s, double timeout_s,
                                 tess_launch_result *result)
{
    tess_launch_options options = {.grace_s = grace_s};
    return tess_launch_function_with(n_ranks, fn, context, &options, timeout_s, result);
}
