#include "control/health/watcher.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/os.h"
#include "control/helper.h"
#include "health/facts.h"

enum { TEXT_BYTES = 1024, JOB_ENDS_S = 60 };

static const double end_s =
    10; /* seconds for the last round and its alerts on a busy machine, in addition to the user's program */

/* ---- One round ---- */
static void gather(const tess_health_options *options, tess_health_view *view)
{
    memset(view, 0, sizeof(*view));
    if (options->look != NULL)
        options->look(options->self, view);
    tess_health_reading *readings = view->readings;
    readings[TESS_HEALTH_MEMORY] = tess_health_read_memory("");
    readings[TESS_HEALTH_GROUP] = tess_health_read_group(getpid());
    readings[TESS_HEALTH_LOAD] = tess_health_read_load("");
    readings[TESS_HEALTH_FILES] = tess_health_read_files("", view->pids, view->n_ranks);
    tess_health_read_disk(options->checkpoint_folder, &readings[TESS_HEALTH_DISK], &readings[TESS_HEALTH_INODES]);
}

static void report(const tess_health_options *options, const tess_health *health, const tess_health_change *change)
{
    char text[TEXT_BYTES];
    tess_health_report(health, change, text, sizeof(text));
    tess_report_line(&options->reporter, "health: %s", text);
    json_t *more = tess_health_to_json(health, change);
    tess_alert alert = {"health", tess_health_state_name(health->state), text, more};
    if (tess_alert_send(&options->alerts, &alert) != TESS_OK)
        tess_report_line(&options->reporter, "health: an alert did not arrive: %.900s", tess_error_message());
    tess_error_clear();
    json_decref(more);
}

void tess_health_round(const tess_health_options *options, tess_health *health)
{
    tess_health_view view;
    tess_health_change change;
    gather(options, &view);
    tess_health_update(health, &options->limits, view.readings, &change);
    if (change.any)
        report(options, health, &change);
}

/* ---- The process ---- */
/* Waits until the next round is due. Returns false if the parent has asked the watcher to end. A SIGTERM comes from
 * mpirun or a scheduler and is meant for the whole job. It does not end the watcher: nothing is to be reported while
 * the job ends. */
static bool wait_for_round(const tess_helper *helper, double interval_s)
{
    bool ends = false;
    double pause_s = interval_s;
    while (tess_helper_wait(helper, pause_s, &ends) != 0 && !ends)
        pause_s = JOB_ENDS_S;
    return !ends;
}

/* Runs the rounds. A ctrl-C that reaches all processes must not end the watcher before the ranks have saved. */
_Noreturn static void watch(const tess_health_options *options, tess_helper *helper)
{
    tess_health health = {0};
    tess_helper_hear(helper, SIGTERM);
    do
        tess_health_round(options, &health);
    while (wait_for_round(helper, options->interval_s));
    _exit(0);
}

tess_status tess_health_watcher_start(const tess_health_options *options, tess_health_watcher *watcher)
{
    tess_helper helper;
    *watcher = (tess_health_watcher){.patience_s = options->alerts.command_timeout_s + end_s};
    pid_t pid = tess_helper_fork("tessera-health", &helper);
    if (pid == 0)
        watch(options, &helper);
    TESS_CHECK(pid > 0, TESS_E_NOMEM, "start the process that watches the job's health: fork: %s", strerror(errno));
    watcher->pid = pid;
    return TESS_OK;
}

bool tess_health_watcher_ended(tess_health_watcher *watcher, char *how, size_t size)
{
    int state;
    if (watcher->pid == 0 || waitpid(watcher->pid, &state, WNOHANG) != watcher->pid)
        return false;
    const char *name = WIFSIGNALED(state) ? sigabbrev_np(WTERMSIG(state)) : NULL;
    if (WIFSIGNALED(state))
        snprintf(how, size, "the process that watches this host (pid %d) was killed by signal %d (SIG%s)", watcher->pid,
                 WTERMSIG(state), name != NULL ? name : "?");
    else
        snprintf(how, size, "the process that watches this host (pid %d) ended with code %d", watcher->pid,
                 WEXITSTATUS(state));
    watcher->pid = 0;
    return true;
}

void tess_health_watcher_stop(tess_health_watcher *watcher)
{
    tess_helpers_end(&watcher->pid, 1, watcher->patience_s);
    watcher->pid = 0;
}
