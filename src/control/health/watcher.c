#include "control/health/watcher.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/os/os.h"
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
/* Waits until the next round is due. Returns false if the parent has ended the watcher. A SIGTERM from any other
 * process comes from mpirun or a scheduler and is meant for the whole job. It does not end the watcher: nothing is
 * to be reported while the job ends. */
static bool wait_for_round(const sigset_t *end, double interval_s, pid_t parent)
{
    struct timespec pause = {.tv_sec = (time_t)interval_s,
                             .tv_nsec = (long)((interval_s - (double)(time_t)interval_s) * 1e9)};
    siginfo_t got;
    while (sigtimedwait(end, &got, &pause) >= 0) {
        if (got.si_pid == parent)
            return false;
        pause = (struct timespec){.tv_sec = JOB_ENDS_S};
    }
    return true;
}

/* Runs the rounds. Ignores signals that are meant for the job: a ctrl-C that reaches all processes must not end the
 * watcher before the ranks have saved. */
_Noreturn static void watch(const tess_health_options *options, pid_t parent)
{
    tess_health health = {0};
    sigset_t all, end;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "tessera-health");
    if (getppid() != parent)
        _exit(0);
    do
        tess_health_round(options, &health);
    while (wait_for_round(&end, options->interval_s, parent));
    _exit(0);
}

tess_status tess_health_watcher_start(const tess_health_options *options, tess_health_watcher *watcher)
{
    pid_t parent = getpid();
    *watcher = (tess_health_watcher){.patience_s = options->alerts.command_timeout_s + end_s};
    fflush(NULL); /* otherwise the child would write our buffers again */
    pid_t pid = fork();
    if (pid == 0)
        watch(options, parent);
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
    if (watcher->pid == 0)
        return;
    kill(watcher->pid, SIGTERM);
    for (double until = tess_os_now_s() + watcher->patience_s; waitpid(watcher->pid, NULL, WNOHANG) == 0;) {
        if (tess_os_now_s() > until) {
            kill(watcher->pid, SIGKILL); /* a process blocked on a dead disk ends when the disk comes back */
            break;
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    watcher->pid = 0;
}
