#include "control/supervise/run_health.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/os/os.h"
#include "doctor/probe/probe.h"
#include "job/find.h"
#include "control/helper.h"
#include "control/timers.h"

/* a watcher that ran for longer is replaced at once; this is also the longest pause before a replacement */
static const double lasts_s = 60;
static const double end_s = 12; /* seconds that a watcher has to end, in addition to the user's program */

/* The job, as the watcher's process sees it. */
typedef struct job_view {
    char job[16]; /* process id of its launcher, for tess_live_find */
    bool open;
    tess_live_job live;
    int *pids;        /* (ranks of `live`) processes of this host's ranks; 0: the rank is on another host */
    uint64_t n_steps; /* number of steps done when the board was last read */
    double stepped_s; /* when n_steps last changed */
    double silence_s[WATCHDOG_KINDS]; /* longest silence between heartbeats, by what a rank is doing; 0: no limit */
} job_view;

static tess_health_reading reading(double value, int who, int rank)
{
    return (tess_health_reading){.known = true, .value = value, .who = who, .rank = rank};
}

/* ---- The board ---- */

static bool is_running(const tess_live_job *live, int rank)
{
    const tess_job_row *row = &live->job.rows[rank];
    return atomic_load(&row->state) == JOB_RANK_JOINED && atomic_load(&row->ended) == 0;
}

static bool any_running(const tess_live_job *live)
{
    bool any = false;
    for (int r = 0; r < live->world; r++)
        any = any || is_running(live, r);
    return any;
}

/* Finds the job's board. A launcher that restarts its ranks may give them other memory, so the job is searched again
 * while no rank runs. */
static bool find_job(job_view *view)
{
    int n = 0;
    if (view->open && any_running(&view->live))
        return true;
    if (view->open)
        tess_live_close(&view->live);
    view->open = tess_live_find(view->job, &view->live, 1, &n) == TESS_OK;
    tess_error_clear();
    int *pids = view->open ? realloc(view->pids, (size_t)view->live.world * sizeof(*pids)) : NULL;
    if (view->open && pids == NULL)
        tess_live_close(&view->live);
    view->open = pids != NULL;
    view->pids = pids != NULL ? pids : view->pids;
    view->stepped_s = tess_os_now_s();
    return view->open;
}

/* Returns the time since a rank's last heartbeat, with the limit for its phase. */
static tess_health_reading silence_of(const job_view *view, int rank, uint64_t now_ns)
{
    char phase[TESS_TRACE_PHASE_BYTES];
    const tess_job_row *row = &view->live.job.rows[rank];
    uint64_t heard_ns = atomic_load(&row->heartbeat_ns);
    tess_board_phase_of(row, phase);
    double silent_s = now_ns > heard_ns ? (double)(now_ns - heard_ns) * 1e-9 : 0;
    tess_health_reading silence = reading(silent_s, atomic_load(&row->pid), rank);
    silence.limit = view->silence_s[watchdog_kind_of(phase)];
    return silence;
}

static void read_board(job_view *view, tess_health_view *out)
{
    const tess_live_job *live = &view->live;
    double now_s = tess_os_now_s();
    uint64_t now_ns = tess_os_now_ns(), n_steps = 0;
    out->n_ranks = live->world;
    out->pids = view->pids;
    for (int r = 0; r < live->world; r++) {
        const tess_job_row *row = &live->job.rows[r];
        uint64_t done = atomic_load(&row->n_steps);
        int pid = atomic_load(&row->pid);
        view->pids[r] = is_running(live, r) && row->host == live->host ? pid : 0;
        if (!is_running(live, r))
            continue;
        /* the rank that is nearest to its limit, or farthest beyond it */
        tess_health_reading silence = silence_of(view, r, now_ns), *worst = &out->readings[TESS_HEALTH_HEARTBEAT];
        if (!worst->known || silence.value * worst->limit > worst->value * silence.limit)
            *worst = silence;
        n_steps = done > n_steps ? done : n_steps;
    }
    if (n_steps != view->n_steps)
        view->stepped_s = now_s;
    view->n_steps = n_steps;
    out->readings[TESS_HEALTH_STEPS] = reading(now_s - view->stepped_s, -1, -1);
}

static void read_job(void *self, tess_health_view *out)
{
    tess_probe_gpu_health gpus;
    job_view *view = self;
    if (find_job(view) && any_running(&view->live))
        read_board(view, out);
    if (!tess_probe_gpu_look(&gpus))
        return;
    if (gpus.hottest >= 0)
        out->readings[TESS_HEALTH_GPU_HEAT] = reading(gpus.celsius, gpus.hottest, -1);
    if (gpus.fullest >= 0)
        out->readings[TESS_HEALTH_GPU_MEMORY] = reading(gpus.percent, gpus.fullest, -1);
    if (gpus.worst >= 0)
        out->readings[TESS_HEALTH_GPU_ERRORS] = reading((double)gpus.n_errors, gpus.worst, -1);
}

/* ---- Start ---- */

tess_health_limits tess_run_health_limits(const tess_config *config)
{
    return (tess_health_limits){.at = {[TESS_HEALTH_MEMORY] = config->health.memory_percent,
                                       [TESS_HEALTH_GROUP] = config->health.memory_percent,
                                       [TESS_HEALTH_FILES] = (double)config->health.fds,
                                       [TESS_HEALTH_DISK] = (double)config->health.disk_bytes,
                                       [TESS_HEALTH_INODES] = (double)config->health.inodes,
                                       [TESS_HEALTH_STEPS] = tess_timers_stall(config),
                                       [TESS_HEALTH_LOAD] = config->health.load,
                                       [TESS_HEALTH_GPU_HEAT] = config->health.gpu_celsius,
                                       [TESS_HEALTH_GPU_MEMORY] = config->health.gpu_memory_percent,
                                       [TESS_HEALTH_GPU_ERRORS] = (double)config->health.gpu_errors},
                                .max_failures = config->health.max_failures};
}

tess_status tess_run_alerts_open(const tess_config *config, tess_run_alerts *alerts)
{
    const tess_text_list *words = &config->health.alert_command;
    *alerts = (tess_run_alerts){.channel = {.file = alerts->file,
                                            .command = words->n > 0 ? alerts->command : NULL,
                                            .command_timeout_s = config->health.alert_timeout_s,
                                            .job = config->job.dump_folder,
                                            .pid = (int)getpid()}};
    for (int i = 0; i < words->n; i++)
        alerts->command[i] = (char *)words->item[i];
    return tess_os_join(alerts->file, sizeof(alerts->file), config->job.dump_folder, "alerts.jsonl");
}

static tess_status start(const tess_config *config, pid_t job, const tess_reporter *reporter,
                         tess_health_watcher *watcher)
{
    char folder[2 * TESS_TEXT_SIZE];
    tess_run_alerts alerts;
    job_view view = {0};
    TESS_TRY(tess_os_join(folder, sizeof(folder), config->job.dump_folder, config->checkpoint.folder));
    TESS_TRY(tess_run_alerts_open(config, &alerts));
    alerts.channel.pid = job;
    snprintf(view.job, sizeof(view.job), "%d", (int)job);
    for (int k = 0; k < WATCHDOG_KINDS; k++)
        view.silence_s[k] = tess_timers_silence(config, (watchdog_kind)k);
    return tess_health_watcher_start(&(tess_health_options){.limits = tess_run_health_limits(config),
                                                            .interval_s = config->health.interval_s,
                                                            .checkpoint_folder = folder,
                                                            .alerts = alerts.channel,
                                                            .look = read_job,
                                                            .self = &view,
                                                            .reporter = *reporter},
                                     watcher);
}

static void start_watcher(tess_run_health *health)
{
    health->started_s = tess_os_now_s();
    health->due_s = INFINITY;
    if (start(health->config, health->job, &health->reporter, &health->watcher) != TESS_OK)
        tess_report_line(&health->reporter, "%s", tess_error_message());
    tess_error_clear();
}

void tess_run_health_look(tess_run_health *health)
{
    char how[128];
    double now_s = tess_os_now_s();
    if (tess_health_watcher_ended(&health->watcher, how, sizeof(how))) {
        if (now_s - health->started_s > lasts_s)
            health->again_s = 0;
        health->due_s = now_s + health->again_s;
        tess_report_line(&health->reporter, "health: %s; another one takes its place in %g s", how, health->again_s);
        health->again_s = fmin(2 * health->again_s + 1, lasts_s);
    }
    if (health->config != NULL && now_s >= health->due_s)
        start_watcher(health);
}

/* Runs the process that starts watchers for a rank that has no parent of ours. */
_Noreturn static void keep_watching(tess_run_health *health, tess_helper *helper)
{
    bool ends = false;
    tess_helper_hear(helper, SIGCHLD);
    start_watcher(health);
    while (!ends) {
        tess_helper_wait(helper, 1, &ends);
        if (!ends)
            tess_run_health_look(health);
    }
    tess_health_watcher_stop(&health->watcher);
    _exit(0);
}

static void start_keeper(tess_run_health *health)
{
    tess_helper helper;
    pid_t pid = tess_helper_fork("tessera-keeper", &helper);
    if (pid == 0)
        keep_watching(health, &helper);
    if (pid < 0)
        tess_report_line(&health->reporter, "health: no process to be had: nothing watches this host");
    double patience_s = health->config->health.alert_timeout_s + end_s;
    *health = (tess_run_health){.reporter = health->reporter,
                                .watcher = {.pid = pid > 0 ? pid : 0, .patience_s = patience_s}};
}

void tess_run_health_start(const tess_config *config, const tess_ranks *ranks, const tess_reporter *reporter,
                           tess_run_health *health)
{
    *health = (tess_run_health){.reporter = *reporter};
    if (!config->health.enable || !tess_ranks_is_first_here(ranks))
        return;
    health->config = config;
    health->job = (int)getpid();
    if (ranks->joins)
        start_keeper(health);
    else
        start_watcher(health);
}

void tess_run_health_stop(tess_run_health *health)
{
    health->config = NULL;
    tess_health_watcher_stop(&health->watcher);
}
