#include "comm/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/os/os.h"
#include "comm/child.h"
#include "comm/ending.h"
#include "comm/watchdog/job_record.h"
#include "comm/watchdog/watchdog.h"

/* How long the system may take to say that it was the one who killed: for want of memory. */
static const double settle_s = 0.06;

typedef struct launcher {
    tess_job job;
    int n_ranks, n_running;
    pid_t pids[JOB_MAX_RANKS]; /* 0: has ended */
    tess_launch_options options;
    tess_mem *mem;
    tess_watchdog *watchdog;
    watchdog_job_record record;
    tess_child_signals signals;
    int stop_signal; /* SIGINT or SIGTERM once it came */
    int stop_code;   /* with which ranks ended after it */
    bool killed;     /* SIGKILL was sent to all */
    bool timed_out;
    double failed_s; /* when the first rank failed, 0: not yet */
    int failed_code; /* its exit code */
    int suspect;     /* the rank that its failure leads to, -1: none, or the root cause is known */
    int cause;       /* the root cause, -1: not known, or there is none */
    int stuck;       /* the rank that it waited for in vain, -1: none */
    bool terminated; /* SIGTERM was sent after it */
    tess_launch_result *result;
} launcher;

/* What a child runs: a program, or a function of this one. */
typedef struct payload {
    char *const *argv;
    int (*fn)(void *context);
    void *context;
    int report_fd; /* errno of a failed exec is written here */
} payload;

/* ---- In the child
 * ---------------------------------------------------------------------------------------------------------- */
static void set_number(const char *name, int number)
{
    char text[16];
    snprintf(text, sizeof(text), "%d", number);
    setenv(name, text, 1);
}

static void run_rank(const launcher *l, int rank, pid_t parent, const payload *what)
{
    tess_child_begin(&l->signals, parent);
    set_number("TESSERA_RANK", rank);
    set_number("TESSERA_WORLD", l->n_ranks);
    set_number("TESSERA_SHM_FD", l->job.fd);
    if (l->options.trace_folder != NULL)
        setenv("TESSERA_TRACE", l->options.trace_folder, 1);
    if (what->fn != NULL) {
        tess_job job = l->job;
        tess_job_close(&job, false);
        exit(what->fn(what->context));
    }
    tess_os_inherit(l->job.fd);
    tess_child_exec(what->argv, what->report_fd);
}

/* ---- What became of a rank
 * ------------------------------------------------------------------------------------------------- */
/* A suspect that has left the job but still runs may yet say with its exit code what was wrong. */
static void judge(launcher *l)
{
    if (l->suspect < 0)
        return;
    l->suspect = tess_ending_cause(&l->job, l->suspect);
    if (l->pids[l->suspect] != 0)
        return;
    const tess_job_row *row = &l->job.rows[l->suspect];
    bool by_itself = atomic_load(&row->state) == JOB_RANK_LOST && !l->terminated && !l->killed;
    l->result->failed_rank = l->suspect;
    l->result->exit_code = by_itself ? atomic_load(&row->exit_code) : l->failed_code;
    l->stuck = tess_ending_stuck(&l->job, l->suspect);
    if (l->stuck >= 0 && l->pids[l->stuck] != 0)
        kill(l->pids[l->stuck], SIGKILL); /* a grace is for ranks that can make use of it */
    l->cause = l->suspect;
    l->suspect = -1;
}

/* The root cause in words, once all that can be known of it is. */
static void report_failure(launcher *l)
{
    char *text = l->result->report;
    size_t size = sizeof(l->result->report);
    if (l->cause < 0 || text[0] != '\0')
        return;
    if (l->stuck < 0) {
        tess_ending_tell(&l->job, l->cause, text, size);
        return;
    }
    l->result->failed_rank = l->stuck;
    tess_ending_tell_stuck(&l->job, l->cause, l->stuck, text, size);
}

static void note_end(launcher *l, int rank, int state)
{
    int pid = l->pids[rank];
    l->pids[rank] = 0;
    l->n_running--;
    int code = tess_ending_code(state);
    if (rank == 0)
        l->result->rank0_code = code;
    /* Ranks of ours end with 130 whichever signal asked them to. */
    bool stopped = l->stop_signal != 0 && (code == 128 + l->stop_signal || code == 128 + SIGINT);
    if (stopped)
        l->stop_code = code;
    bool asked = stopped || l->killed || l->terminated || rank == l->stuck;
    tess_watchdog_ended(l->watchdog, rank, pid, state, asked);
    watchdog_job_record_asked(&l->record, rank, asked);
    if (tess_ending_note(&l->job, rank, state, stopped) && l->failed_s == 0 && !l->killed) {
        l->failed_s = tess_os_now_s();
        l->failed_code = code;
        l->suspect = rank;
    }
    judge(l);
}

/* ---- Signals, ends and deadlines
 * ------------------------------------------------------------------------------------------------- */
static void signal_all(const launcher *l, int signal, bool only_absent)
{
    for (int r = 0; r < l->n_ranks; r++)
        if (l->pids[r] != 0 && (!only_absent || atomic_load(&l->job.rows[r].state) == JOB_RANK_ABSENT))
            kill(l->pids[r], signal);
}

static void kill_all(launcher *l)
{
    l->killed = true;
    signal_all(l, SIGKILL, false);
}

static void take_signal(launcher *l, int signal)
{
    if (signal == SIGUSR1) {
        signal_all(l, SIGUSR1, false);
    } else if (signal == SIGINT || signal == SIGTERM || signal == SIGUSR2) {
        if (l->stop_signal != 0) {
            kill_all(l);
            return;
        }
        /* Ranks of ours finish what they do and leave; other programs get the signal itself. */
        l->stop_signal = signal == SIGTERM ? SIGTERM : SIGINT;
        atomic_store(&l->job.header->stop, 1);
        signal_all(l, signal, true);
    }
}

/* True when one came. */
static bool wait_for_signal(launcher *l, long timeout_ns)
{
    struct timespec pause = {.tv_nsec = timeout_ns};
    int signal = sigtimedwait(&l->signals.watched, NULL, &pause);
    if (signal > 0)
        take_signal(l, signal);
    return signal > 0;
}

static void reap(launcher *l)
{
    for (int r = 0; r < l->n_ranks; r++) {
        int state;
        if (l->pids[r] == 0 || waitpid(l->pids[r], &state, WNOHANG) != l->pids[r])
            continue;
        /* A ctrl-C that killed it is here by now, and must be known before the end is judged. */
        while (wait_for_signal(l, 0))
            ;
        note_end(l, r, state);
    }
}

static void report_timeout(launcher *l, double timeout_s)
{
    char *text = l->result->report;
    size_t size = sizeof(l->result->report), at = 0;
    int written = snprintf(text, size, "the job took longer than %.3g s", timeout_s);
    at += (size_t)written;
    for (int r = 0; r < l->n_ranks && at + 120 < size; r++) {
        char state[256];
        if (l->pids[r] == 0)
            continue;
        written =
            snprintf(text + at, size - at, "; rank %d %s", r, tess_board_describe(&l->job, r, state, sizeof(state)));
        at += (size_t)written < size - at ? (size_t)written : size - at - 1;
    }
    l->result->exit_code = 124; /* as timeout(1) has it */
}

static void check_deadlines(launcher *l, double begin_s, double timeout_s)
{
    double now_s = tess_os_now_s();
    if (l->failed_s != 0 && !l->killed) {
        if (!l->terminated && now_s - l->failed_s >= l->options.grace_s) {
            l->terminated = true;
            signal_all(l, SIGTERM, false);
        } else if (l->terminated && now_s - l->failed_s >= l->options.grace_s + TESS_KILL_AFTER_S) {
            kill_all(l);
        }
    }
    if (timeout_s > 0 && !l->killed && now_s - begin_s >= timeout_s) {
        if (l->failed_s == 0)
            report_timeout(l, timeout_s);
        l->timed_out = true;
        kill_all(l);
    }
}

/* A rank that was killed has no more to say, and whoever is on call should not wait for the others to end. */
static void tell_kill(launcher *l)
{
    if (l->cause < 0 || l->n_running == 0 || l->result->told || l->options.notice == NULL ||
        atomic_load(&l->job.rows[l->cause].signal) == 0 || tess_os_now_s() - l->failed_s < settle_s)
        return;
    report_failure(l);
    l->options.notice(l->options.self, l->result->report);
    l->result->told = true;
}

static void watch(launcher *l, double timeout_s)
{
    double begin_s = tess_os_now_s();
    reap(l);
    while (l->n_running > 0) {
        /* The timeout is for the deadlines below, and for a child whose signal was merged with another's. */
        wait_for_signal(l, 50000000);
        reap(l);
        tess_watchdog_look(l->watchdog);
        watchdog_job_record_look(&l->record, &l->job);
        tell_kill(l);
        check_deadlines(l, begin_s, timeout_s);
    }
}

/* ---- Start
 * ------------------------------------------------------------------------------------------------------------------ */
static tess_status start_ranks(launcher *l, const payload *what)
{
    pid_t parent = getpid();
    fflush(NULL); /* or forked children would write our buffers again */
    for (int r = 0; r < l->n_ranks; r++) {
        pid_t pid = fork();
        if (pid == 0)
            run_rank(l, r, parent, what);
        if (pid < 0) {
            int reason = errno;
            kill_all(l);
            watch(l, 0);
            return TESS_FAIL(TESS_E_NOMEM, "start rank %d of %d: fork: %s", r, l->n_ranks, strerror(reason));
        }
        l->pids[r] = pid;
        l->n_running++;
    }
    return TESS_OK;
}

static tess_status open_watchdog(launcher *l)
{
    tess_watchdog_options options = {.soft_s = l->options.soft_timeout_s,
                                     .timeout_s = l->options.timeout_s,
                                     .waits_on = l->options.waits_on,
                                     .pids = l->pids,
                                     .notice = l->options.notice,
                                     .self = l->options.self};
    TESS_TRY(tess_mem_create(&l->mem));
    tess_status status = tess_watchdog_create(l->mem, &l->job, &options, &l->watchdog);
    if (status != TESS_OK)
        tess_mem_destroy(&l->mem);
    else
        watchdog_job_record_begin(&l->record, l->mem, false);
    return status;
}

static void close_watchdog(launcher *l)
{
    tess_watchdog_settle(l->watchdog);
    report_failure(l);
    watchdog_job_record_end(&l->record, &l->job, l->result);
    tess_watchdog_destroy(&l->watchdog);
    tess_mem_destroy(&l->mem);
}

static tess_status run_job(int n_ranks, payload *what, const tess_launch_options *options, double timeout_s,
                           tess_launch_result *result)
{
    launcher l = {.n_ranks = n_ranks,
                  .options = *options,
                  .result = result,
                  .suspect = -1,
                  .cause = -1,
                  .stuck = -1,
                  .job = {.fd = -1}};
    *result = (tess_launch_result){.failed_rank = -1};
    TESS_TRY(tess_job_create(n_ranks, &l.job));
    l.job.header->launcher_pid = (int32_t)getpid();
    int report[2] = {-1, -1};
    if (what->argv != NULL && pipe2(report, O_CLOEXEC) != 0) {
        tess_job_close(&l.job, true);
        return tess_os_error("pipe", "for the ranks");
    }
    tess_status status = open_watchdog(&l);
    if (status != TESS_OK) {
        tess_os_close(&report[0]);
        tess_os_close(&report[1]);
        tess_job_close(&l.job, true);
        return status;
    }
    what->report_fd = report[1];
    tess_child_block_signals(&l.signals);
    status = start_ranks(&l, what);
    if (status == TESS_OK && what->argv != NULL) {
        close(report[1]);
        report[1] = -1;
        status = tess_child_started(what->argv[0], report[0]);
        if (status != TESS_OK)
            kill_all(&l);
    }
    watch(&l, timeout_s);
    close_watchdog(&l);
    tess_child_restore_signals(&l.signals);
    if (report[0] >= 0)
        close(report[0]);
    if (report[1] >= 0)
        close(report[1]);
    if (l.stop_signal != 0 && result->failed_rank < 0 && !l.timed_out) {
        result->exit_code = l.stop_code != 0 ? l.stop_code : 128 + l.stop_signal;
        if (l.killed)
            snprintf(result->report, sizeof(result->report), "asked to stop twice: the ranks were killed");
    }
    tess_job_close(&l.job, true);
    return status;
}

tess_status tess_launch(int n_ranks, char *const *argv, const tess_launch_options *options, tess_launch_result *result)
{
    TESS_CHECK(argv != NULL && argv[0] != NULL && options != NULL && result != NULL, TESS_E_INVALID,
               "tess_launch: there is no program");
    payload what = {.argv = argv};
    return run_job(n_ranks, &what, options, 0, result);
}

tess_status tess_launch_function_with(int n_ranks, int (*fn)(void *context), void *context,
                                      const tess_launch_options *options, double timeout_s, tess_launch_result *result)
{
    TESS_CHECK(fn != NULL && options != NULL && result != NULL, TESS_E_INVALID,
               "tess_launch_function: there is no function");
    payload what = {.fn = fn, .context = context};
    return run_job(n_ranks, &what, options, timeout_s, result);
}

tess_status tess_launch_function(int n_ranks, int (*fn)(void *context), void *context, double grace_s, double timeout_s,
                                 tess_launch_result *result)
{
    tess_launch_options options = {.grace_s = grace_s};
    return tess_launch_function_with(n_ranks, fn, context, &options, timeout_s, result);
}
