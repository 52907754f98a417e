/* Decides which signals form one request to stop, and how much time the ranks have. */
#include <signal.h>
#include <unistd.h>

#include "base/os/os.h"
#include "control/launch/agent/agent_impl.h"

/* Two signals of the same origin within this time are one request. */
static const double same_stop_s = 1;

warden_stop_kind warden_stop_take(warden_stop *stop, const struct signalfd_siginfo *info)
{
    double now_s = tess_os_now_s();
    /* The origin of a signal is its sender and number. A scheduler or terminal may signal every process, and mpirun
     * may pass the same signal on: one request then has two origins. */
    bool by_system = info->ssi_code > 0, by_mpi = (pid_t)info->ssi_pid == getppid();
    int way = (int)info->ssi_signo * 4 + by_system * 2 + by_mpi;
    bool repeats = way == stop->way && info->ssi_signo != SIGHUP; /* a closed terminal sends several SIGHUP */
    if (stop->signal != 0)
        return repeats && now_s - stop->signal_s >= same_stop_s ? WARDEN_STOP_AGAIN : WARDEN_STOP_SAME;
    stop->signal = tess_stop_signal_of((int)info->ssi_signo);
    stop->way = way;
    stop->signal_s = now_s;
    return WARDEN_STOP_FIRST;
}

static void report_request(const tess_launch_options *options)
{
    if (options->stop_grace_s > 0)
        tess_report_line(&options->reporter,
                         "asked to stop: the ranks have %g s to finish their step and save; a second signal ends them "
                         "at once",
                         options->stop_grace_s);
    else
        tess_report_line(&options->reporter,
                         "asked to stop: the ranks are told to end; a second signal ends them at once");
}

bool warden_stop_is_overdue(warden_stop *stop, const tess_job *job, const tess_launch_options *options, bool reports)
{
    double now_s = tess_os_now_s();
    if (atomic_load(&job->header->stop) != JOB_STOP_NOW || stop->is_overdue)
        return false;
    if (stop->since_s == 0) {
        stop->since_s = now_s;
        if (reports)
            report_request(options);
    }
    stop->is_overdue = options->stop_grace_s > 0 && now_s - stop->since_s >= options->stop_grace_s;
    if (stop->is_overdue && reports)
        tess_report_line(
            &options->reporter,
            "not done within %g s of being asked to stop: the ranks are killed, the newest complete checkpoint stands",
            options->stop_grace_s);
    return stop->is_overdue;
}
