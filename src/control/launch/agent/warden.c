/* The main loop of a warden: one thread that waits for its child, for signals, for requests of its rank and, as an
 * agent, for other hosts. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/os.h"
#include "base/text/text.h"
#include "job/environment.h"
#include "job/lives.h"
#include "job/rank_end.h"
#include "control/launch/agent/agent_impl.h"
#include "control/launch/ending_record.h"

/* Seconds from the first failure to the search for its cause: reports from other hosts may still arrive. */
static const double settle_s = 0.15;
/* Seconds after the survivors' grace until a warden ends without a diagnosis. */
static const double patience_s = 10;
/* When Open MPI has lost a host, it sends SIGTERM, and one second later SIGKILL, also to the wardens. Ranks that
 * have not ended pressed_grace_s after the SIGTERM get no more grace. After pressed_wait_s the diagnosis no longer
 * waits for other ranks. */
static const double pressed_grace_s = 0.2, pressed_wait_s = 0.4;
/* A loop runs at least 20 times a second, so this process was stopped if a loop took this long. */
static const uint64_t still_ns = 1000000000;

typedef struct warden {
    warden_client rank;
    pid_t child;       /* process id of the rank; 0: it has ended */
    int code;          /* exit code of the child */
    bool failed_alone; /* the child failed before it was adopted */
    int signals_fd;
    uint64_t looked_ns; /* when this process last looked for signals and messages; 0: never */
    bool stood_still;   /* this process did not run for a while, so other hosts may only seem silent */
    warden_stop stop;
    bool asked;              /* the child got a signal for a request to stop, if it needs one */
    bool terminated, killed; /* the child was sent SIGTERM and SIGKILL */
    tess_launch_options options;
    warden_watch watch;
    double failed_s; /* when this warden noticed that the job failed; 0: it has not */
    warden_processes processes;
    bool reports;        /* this warden reports the diagnosis */
    rank_output *output; /* NULL: the rank has the streams of this process */
} warden;

static bool is_adopted(const warden *g)
{
    return g->rank.rank >= 0;
}

/* Whether this is the warden of the host's first rank. That warden finds the diagnosis for the host, and is its
 * agent. */
static bool is_first(const warden *g)
{
    return is_adopted(g) && atomic_load(&g->rank.job.header->agent_pid) == (int32_t)getpid();
}

/* ---- The child ---- */
static void signal_child(const warden *g, int signal)
{
    if (g->child != 0)
        kill(g->child, signal);
}

static void kill_child(warden *g)
{
    g->killed = true;
    signal_child(g, SIGKILL);
}

/* Whether a signal to this process has asked the ranks to stop. */
static bool has_request(const warden *g)
{
    return g->stop.signal != 0 && !g->stop.is_loss;
}

/* Whether the child ended because it was asked to stop. Ranks of Tessera exit with 130 for any signal that asked
 * them. The signal may have come to one host only. */
static bool was_asked(const warden *g, int code)
{
    bool stop = has_request(g) || (is_adopted(g) && atomic_load(&g->rank.job.header->stop) != JOB_STOP_NO);
    return stop && (g->killed || code == 128 + SIGINT || tess_stop_ended(code, SIGTERM));
}

/* Passes a request to stop on to the job, also if the request came before the rank joined the job. */
static void take_request(warden *g)
{
    warden_answer_request(&g->rank);
    if (has_request(g) && is_adopted(g))
        atomic_store(&g->rank.job.header->stop, JOB_STOP_NOW);
}

static void take_signals(warden *g);

static void note_end(const warden *g, int state, bool asked)
{
    const tess_job *job = &g->rank.job;
    tess_ending_note(job, g->rank.rank, state, asked);
    if (g->options.ended != NULL)
        g->options.ended(g->options.self, g->rank.rank, &job->past[g->rank.rank]);
}

/* Reaps the child, but only after its end is on the board. Otherwise, if this process stood still in between, the
 * host's first warden would take the missing process for a rank whose warden was killed. */
static void reap(warden *g)
{
    siginfo_t end = {0};
    pid_t pid = g->child;
    if (pid == 0 || waitid(P_PID, (id_t)pid, &end, WEXITED | WNOHANG | WNOWAIT) != 0 || end.si_pid != pid)
        return;
    int state = end.si_code == CLD_EXITED ? end.si_status << 8 : end.si_status; /* status in the form of waitpid */
    g->child = 0;
    take_signals(g); /* a ctrl-C that killed the child has arrived by now, and decides how the end is judged */
    struct pollfd ready = {.fd = g->rank.channel, .events = POLLIN};
    /* requests that the child sent before it died can still be read */
    while (g->rank.channel >= 0 && poll(&ready, 1, 0) > 0)
        take_request(g);
    g->code = tess_ending_code(state);
    bool asked = was_asked(g, g->code);
    warden_watch_ended(&g->watch, g->rank.rank, pid, state, asked || g->terminated || g->killed);
    if (is_adopted(g))
        note_end(g, state, asked);
    else
        g->failed_alone = g->code != 0 && !asked;
    waitpid(pid, NULL, 0);
}

/* ---- Signals ---- */
static void stop(warden *g, const struct signalfd_siginfo *info)
{
    warden_stop_kind kind = warden_stop_take(&g->stop, info);
    if (kind == WARDEN_STOP_AGAIN)
        kill_child(g);
    if (kind != WARDEN_STOP_FIRST || !is_adopted(g))
        return;
    g->stop.is_loss = g->stop.signal == SIGTERM && !g->stood_still && agent_lose_silent(g->rank.agent, &g->rank.job);
    if (has_request(g))
        atomic_store(&g->rank.job.header->stop, JOB_STOP_NOW);
}

/* Asks the child to stop. The request may have come to another host. A rank that has not joined yet sees it when it
 * joins. */
static void ask_child(warden *g)
{
    const tess_job_row *row = is_adopted(g) ? &g->rank.job.rows[g->rank.rank] : NULL;
    bool joined = row != NULL && atomic_load(&row->state) != JOB_RANK_ABSENT;
    bool elsewhere = joined && atomic_load(&g->rank.job.header->stop) == JOB_STOP_NOW;
    if (g->asked || (!has_request(g) && !elsewhere))
        return;
    int by = g->stop.signal != 0 ? g->stop.signal : SIGTERM;
    g->asked = true;
    signal_child(g, joined ? tess_stop_signal_for(row, by, g->options.heeds_stop, false) : by);
}

static void take_signals(warden *g)
{
    struct signalfd_siginfo info;
    while (read(g->signals_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGUSR1 && !g->options.usr1_stops)
            signal_child(g, SIGUSR1);
        else if (info.ssi_signo != SIGCHLD) /* SIGUSR2 means a ctrl-C that mpirun does not see (launch_watch.c) */
            stop(g, &info);
    }
}

/* ---- A failure ---- */
/* Whether no other warden is left that would report the diagnosis before this one. Reports come from a host's first
 * warden, and for the job from the first warden of the lowest connected host. A warden that has ended has reported
 * it. */
static bool is_next_to_report(const warden *g)
{
    const tess_job *job = &g->rank.job;
    if (!is_first(g)) {
        char state = tess_os_process_state(atomic_load(&job->header->agent_pid));
        return state == '\0' || state == 'Z';
    }
    for (int h = 0; h < (int)job->header->host; h++)
        if (ending_in_touch(job, h))
            return false;
    return true;
}

static bool knows_diagnosis(const tess_job_header *header)
{
    uint32_t state = atomic_load(&header->diagnosis_state);
    return state == JOB_DIAGNOSIS_HERE || state == JOB_DIAGNOSIS_ELSEWHERE;
}

/* Whether the rank cannot use its grace, according to the diagnosis. Either it is stopped (others waited for it,
 * whichever rank was named), or the failed rank waited for it without success and it does not know. */
static bool is_hopeless(const warden *g)
{
    const tess_job *job = &g->rank.job;
    const tess_job_row *own = &job->rows[g->rank.rank];
    if (!knows_diagnosis(job->header))
        return false;
    bool unaware = atomic_load(&own->state) <= JOB_RANK_JOINED && own->error[0] == '\0';
    int blamed = atomic_load(&job->rows[atomic_load(&job->header->diagnosis_rank)].blames) - 1;
    return atomic_load(&own->run_state) == 'T' || (unaware && blamed == g->rank.rank);
}

/* Whether `s` seconds have passed since a SIGTERM that belongs to a failure. Otherwise, ranks that are asked to stop
 * may take their time. */
static bool is_pressed(const warden *g, double now_s, double s)
{
    const warden_stop *stop = &g->stop;
    return stop->signal == SIGTERM && g->failed_s - stop->signal_s < 1 && now_s - stop->signal_s >= s;
}

/* Ends a rank that survived the failure, after its grace. The grace is only for ranks that can use it. A rank whose
 * link broke inside MPI may never return: Open MPI aborts the job in its name, and waits there until mpirun ends it. */
static void end_survivor(warden *g, double now_s)
{
    double since_s = now_s - g->failed_s;
    if (!g->killed && (is_hopeless(g) || is_pressed(g, now_s, pressed_grace_s)))
        kill_child(g);
    if (!g->terminated && since_s >= g->options.grace_s) {
        g->terminated = true;
        signal_child(g, SIGTERM);
    } else if (!g->killed && since_s >= g->options.grace_s + TESS_KILL_AFTER_S) {
        kill_child(g);
    }
}

static bool out_of_patience(const warden *g, double now_s)
{
    return g->failed_s != 0 && now_s - g->failed_s >= g->options.grace_s + patience_s;
}

static void diagnose(warden *g, double now_s)
{
    const tess_job *job = &g->rank.job;
    bool late = out_of_patience(g, now_s);
    if (atomic_load(&job->header->diagnosis_state) != JOB_DIAGNOSIS_NONE || now_s - g->failed_s < settle_s)
        return;
    if (!late && !is_next_to_report(g))
        return;
    bool early = now_s - g->failed_s < g->options.grace_s;
    int code, cause = ending_find(job, early, &code);
    const tess_job_row *row = &job->rows[cause];
    /* A rank that has left the job but still runs may report the cause through its exit code. */
    if (!late && atomic_load(&row->ended) == 0 && ending_in_touch(job, row->host))
        return;
    /* A job that lost a host gets the exit code of its survivors, as long as they have time to end by themselves. */
    if (code == 0 && early && !is_pressed(g, now_s, pressed_grace_s) && ending_is_running(job, -1))
        return;
    g->reports = ending_take(job, cause, code != 0 ? code : 1);
}

static void look_at_failure(warden *g, double now_s)
{
    if (!is_adopted(g))
        return;
    if (g->processes.world != g->rank.job.world &&
        warden_processes_begin(&g->processes, g->rank.mem, g->rank.job.world) != TESS_OK)
        tess_error_clear();
    warden_processes_look(&g->processes, &g->rank.job, is_first(g), now_s);
    warden_watch_look(&g->watch, &g->rank, &g->options, is_first(g));
    if (warden_stop_is_overdue(&g->stop, &g->rank.job, &g->options, g->rank.rank == 0))
        kill_child(g);
    if (g->failed_s == 0 && atomic_load(&g->rank.job.header->first_lost) >= 0)
        g->failed_s = now_s;
    if (g->failed_s == 0)
        return;
    end_survivor(g, now_s);
    diagnose(g, now_s);
}

/* ---- When the warden may end ---- */
static bool may_go_after_failure(const warden *g, double now_s)
{
    const tess_job *job = &g->rank.job;
    if (out_of_patience(g, now_s))
        return true;
    if (!knows_diagnosis(job->header) || ending_is_running(job, (int)job->header->host))
        return false;
    if (!g->reports)
        return is_next_to_report(g);
    if (is_pressed(g, now_s, pressed_wait_s))
        return true;
    return !ending_is_running(job, -1) && (g->rank.agent == NULL || agent_diagnosis_is_known(g->rank.agent));
}

/* Whether this warden may end. mpirun ends all ranks as soon as one warden ends with an error, so a warden with an
 * error waits for the others. */
static bool may_go(const warden *g, double now_s)
{
    const tess_job *job = &g->rank.job;
    if (g->child != 0)
        return false;
    if (!is_adopted(g))
        return true;
    if (g->failed_s != 0)
        return may_go_after_failure(g, now_s);
    if (atomic_load(&job->header->first_lost) >= 0)
        return false;
    if (g->code != 0)
        return !ending_is_running(job, -1);
    return !is_first(g) || !ending_is_running(job, (int)job->header->host);
}

/* Tells the keeper of the output which rank of the job this is. */
static void name_output(const warden *g)
{
    const tess_job_header *header = is_adopted(g) ? g->rank.job.header : NULL;
    if (header != NULL && g->output != NULL)
        rank_output_name(g->output, 0, g->rank.rank, header->n_hosts > 1 ? header->hosts[header->host].name : "");
}

/* ---- The loop ---- */
static void wait_for_something(warden *g)
{
    struct pollfd fds[2 + AGENT_POLLS];
    fds[0] = (struct pollfd){.fd = g->signals_fd, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = g->rank.channel, .events = POLLIN};
    int n = g->rank.agent != NULL ? agent_watch(g->rank.agent, fds + 2) : 0;
    int timeout_ms = g->rank.agent != NULL || g->failed_s != 0 ? 10 : 50;
    if (poll(fds, (nfds_t)(2 + n), timeout_ms) < 0)
        for (int i = 0; i < 2 + n; i++)
            fds[i].revents = 0;
    g->stood_still = g->looked_ns != 0 && tess_os_now_ns() - g->looked_ns >= still_ns;
    take_signals(g);
    if (fds[1].revents != 0)
        take_request(g);
    if (g->rank.agent != NULL && n > 0)
        agent_serve(g->rank.agent, fds + 2);
    g->looked_ns = tess_os_now_ns();
}

static void watch(warden *g)
{
    do {
        wait_for_something(g);
        name_output(g);
        ask_child(g);
        reap(g);
        look_at_failure(g, tess_os_now_s());
        if (g->options.look != NULL)
            g->options.look(g->options.helpers);
        if (g->options.tick != NULL && is_adopted(g))
            g->options.tick(g->options.self, &g->rank.job, &g->child);
    } while (!may_go(g, tess_os_now_s()));
}

static void report_alone(const warden *g, tess_launch_result *result)
{
    if (g->code > 128)
        snprintf(result->report, sizeof(result->report),
                 "a rank was killed by signal %d (SIG%s) before it joined the job", g->code - 128,
                 sigabbrev_np(g->code - 128) != NULL ? sigabbrev_np(g->code - 128) : "?");
    else
        snprintf(result->report, sizeof(result->report), "a rank exited with code %d before it joined the job",
                 g->code);
}

/* Fills in the result. `decide` is informed, too, but its decision has no effect here. */
static void write_report(const warden *g, tess_launch_result *result)
{
    tess_failure failure;
    tess_launch_decision decision = {.action = TESS_ACTION_STOP};
    int cause = result->failed_rank, stuck = tess_ending_stuck(&g->rank.job, cause);
    if (stuck >= 0)
        result->failed_rank = stuck;
    tess_ending_report(&g->rank.job, cause, stuck, result->report, sizeof(result->report));
    tess_ending_facts(&g->rank.job, cause, result->failed_rank, result->exit_code, result->report, &failure);
    if (g->options.decide != NULL)
        g->options.decide(g->options.self, &failure, &decision);
    result->reported = decision.reported;
}

/* Records why the job did not end well, as far as this warden knows. All wardens name the same root cause. */
static void note_failure(const warden *g, tess_launch_result *result)
{
    const tess_job *job = &g->rank.job;
    char report[sizeof(result->report)];
    if (result->exit_code == 0 && result->failed_rank < 0)
        return;
    result->has_record = true;
    if (!is_adopted(g)) {
        launch_ending_record_plain(result->exit_code, result->asked_to_stop && !g->failed_alone, result->report,
                                   &result->record);
        return;
    }
    launch_ending ending = {.cause = -1,
                            .rank = result->failed_rank,
                            .exit_code = result->exit_code,
                            .asked = result->asked_to_stop && result->failed_rank < 0,
                            .report = result->report};
    if (result->failed_rank >= 0) {
        const int named = g->reports ? atomic_load(&job->header->diagnosis_rank) : result->failed_rank;
        const int stuck = tess_ending_stuck(job, named);
        ending.cause = named;
        ending.rank = stuck >= 0 ? stuck : named;
        ending.report = tess_ending_report(job, named, stuck, report, sizeof(report));
    }
    launch_ending_record(job, &ending, &result->record);
}

static void fill_result(const warden *g, tess_launch_result *result)
{
    const tess_job *job = &g->rank.job;
    result->exit_code = result->rank0_code = g->code;
    result->asked_to_stop = has_request(g) || (is_adopted(g) && atomic_load(&job->header->stop) == JOB_STOP_NOW);
    if (has_request(g) && g->code == 0)
        result->exit_code = 128 + g->stop.signal;
    if (g->failed_alone)
        report_alone(g, result);
    if (!is_adopted(g))
        return;
    if (g->rank.rank != 0)
        result->rank0_code = atomic_load(&job->rows[0].exit_code);
    if (g->failed_s == 0) {
        if (!g->killed || g->rank.rank != 0)
            return;
        tess_text_add(result->report, sizeof(result->report), 0, TESS_STOPPED_BY_OPERATOR,
                      g->stop.is_overdue ? TESS_STOPPED_LATE : TESS_STOPPED_TWICE);
        if (g->options.kept != NULL)
            g->options.kept(g->options.helpers, tess_ending_steps_done(job), result->report, sizeof(result->report));
        return;
    }
    bool known = knows_diagnosis(job->header);
    result->failed_rank = known ? atomic_load(&job->header->diagnosis_rank) : atomic_load(&job->header->first_lost);
    result->exit_code = known ? atomic_load(&job->header->diagnosis_code) : g->code != 0 ? g->code : 1;
    if (g->reports)
        write_report(g, result);
}

static void release(warden *g)
{
    if (g->rank.agent != NULL && !g->reports)
        agent_say_goodbye(g->rank.agent);
    agent_close(&g->rank.agent, g->reports);
    tess_mem_free(g->rank.mem, g->rank.hosts);
    warden_processes_end(&g->processes, g->rank.mem);
    tess_os_close(&g->rank.channel);
    tess_os_close(&g->signals_fd);
    tess_job_close(&g->rank.job, true);
}

/* Begins to keep the rank's output. Its number in the job may still change. */
static tess_status open_output(warden *g)
{
    tess_environment environment;
    if (g->options.output == NULL)
        return TESS_OK;
    TESS_TRY(tess_environment_read(&environment));
    const output_ranks ranks = {
        .first = environment.rank, .first_local = environment.local_rank, .n = 1, .attempt = tess_lives_before()};
    return rank_output_open(g->rank.mem, g->options.output, &ranks, &g->options.reporter, &g->output);
}

tess_status tess_warden_run(char *const *argv, const tess_launch_options *options, tess_launch_result *result)
{
    TESS_CHECK(argv != NULL && argv[0] != NULL && options != NULL && result != NULL, TESS_E_INVALID,
               "tess_warden_run: there is no program");
    tess_child_signals signals;
    tess_mem *mem;
    warden *g;
    *result = (tess_launch_result){.failed_rank = -1};
    TESS_TRY(tess_mem_create(&mem));
    tess_status status = TESS_NEW(mem, 1, "warden", &g);
    if (status != TESS_OK) {
        tess_mem_destroy(&mem);
        return status;
    }
    *g = (warden){.rank = {.mem = mem, .channel = -1, .rank = -1, .job = {.fd = -1}, .reporter = options->reporter},
                  .options = *options};
    tess_child_block_signals(&signals);
    g->signals_fd = signalfd(-1, &signals.watched, SFD_CLOEXEC | SFD_NONBLOCK);
    status = g->signals_fd >= 0 ? open_output(g) : tess_os_error("signalfd", "of the warden");
    if (status == TESS_OK)
        status = warden_start(argv, &signals, g->output, &g->child, &g->rank.channel);
    if (g->child != 0)
        watch(g);
    rank_output_close(mem, &g->output);
    tess_watchdog_settle(g->watch.watchdog);
    if (status == TESS_OK) {
        fill_result(g, result);
        note_failure(g, result);
    }
    warden_watch_end(&g->watch, result, is_first(g));
    release(g);
    tess_child_restore_signals(&signals);
    tess_mem_free(mem, g);
    tess_mem_destroy(&mem);
    return status;
}
