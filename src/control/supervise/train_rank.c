#include "control/supervise/train_rank.h"

#include <signal.h>
#include <unistd.h>

#include "comm/rejoin.h"
#include "job/environment.h"
#include "control/record/error_record.h"
#include "control/supervise/exit.h"
#include "control/supervise/stop_signals.h"

/* State of requests to stop this process's rank by signals. */
typedef struct stop_requests {
    tess_runtime *volatile runtime; /* runtime that a signal asks to stop; NULL: a signal kills the process */
    /* While a lost rank is being replaced, a signal is stored and passed on once all ranks have joined. */
    volatile sig_atomic_t is_replaceable, asked_meanwhile;
} stop_requests;

/* The requests of this process, for its signal handler, which gets only the signal's number. NULL: no rank is
 * running. */
static stop_requests *volatile requests;

/* Handler that ignores further signals: a closed terminal sends several SIGHUP, also while the process ends. */
static void take_no_notice(TESS_UNUSED int number)
{
}

/* Handler of requests to stop. Schedulers signal every process of a job. Once a rank is lost for good, nothing can
 * be saved. The line is written without the reporter, because a handler may call only write() to print. */
static void on_signal(int number)
{
    static const char heard[] =
        "\ntessera: asked to stop: the run finishes its step and saves; a second signal ends it "
        "at once\n";
    stop_requests *to = requests;
    tess_runtime *runtime = to != NULL ? to->runtime : NULL;
    if (runtime != NULL && !tess_launch_is_rank()) /* a launcher reports it itself */
        (void)!write(STDERR_FILENO, heard, sizeof(heard) - 1);
    signal(number, number == SIGHUP ? take_no_notice : SIG_DFL); /* a second signal kills */
    if (runtime != NULL && !tess_launch_has_lost(runtime))
        tess_runtime_request_stop(runtime);
    else if (to != NULL && to->is_replaceable)
        to->asked_meanwhile = 1;
    else if (to == NULL && tess_launch_is_rank())
        return; /* the rank has ended, and its process is about to end */
    else {
        signal(number, SIG_DFL);
        raise(number);
    }
}

enum { ON_TIMEOUT_REPORT = 0 }; /* value of comm.on_timeout: ranks continue to wait, and the launcher reports it */
static const double for_ever_s = 1e9;

bool tess_train_waits_on(const tess_config *config)
{
    return config->comm.on_timeout == ON_TIMEOUT_REPORT;
}

static void handle_signals(void)
{
    tess_stop_signal_handle(SIGTERM, on_signal);
    tess_stop_signal_handle(SIGUSR1, on_signal);
    if (tess_launch_is_rank())
        return; /* ctrl-C and the end of the terminal are handled by the launcher */
    tess_stop_signal_handle(SIGINT, on_signal);
    tess_stop_signal_handle(SIGHUP, on_signal);
}

/* Runs one life of the job in this process. *lost: the life ended because a peer was lost, not by an error of its
 * own. */
static int live(const tess_task_kind *kind, const tess_config *config, const tess_train_view *view, stop_requests *stop,
                bool *lost)
{
    tess_runtime *runtime = NULL;
    tess_train_result result;
    tess_runtime_options options = tess_config_runtime(config);
    if (tess_train_waits_on(config))
        options.comm_timeout_s = for_ever_s;
    tess_status status = tess_runtime_create(&options, &runtime);
    *lost = status == TESS_E_PEER_LOST;
    if (*lost || (status == TESS_E_MISMATCH && tess_launch_is_rank()))
        return TESS_EXIT_FAILED; /* the launcher reports the failure once */
    if (status != TESS_OK)
        return tess_exit_fail_once(status);
    int rank = tess_runtime_rank(runtime);
    stop->runtime = runtime;
    stop->is_replaceable = tess_launch_recovers(runtime);
    if (stop->asked_meanwhile)
        tess_runtime_request_stop(runtime);
    handle_signals();
    status = tess_train(runtime, kind, config, &view->observer, &result);
    *lost = status == TESS_E_PEER_LOST;
    if (rank == 0)
        view->end(view->observer.self, status, &result);
    int code = result.interrupted ? TESS_EXIT_INTERRUPTED : TESS_EXIT_OK;
    if (status != TESS_OK)
        code = tess_exit_rank(status, runtime);
    if (code != TESS_EXIT_OK)
        tess_error_record_own(config->job.dump_folder, runtime, status, code);
    stop->runtime = NULL;
    tess_runtime_destroy(&runtime);
    return code;
}

int tess_train_rank(const tess_task_kind *kind, const tess_config *config, const tess_train_view *view)
{
    stop_requests stop = {0};
    bool lost;
    int code;
    requests = &stop;
    view->begin(view->observer.self, config);
    do
        code = live(kind, config, view, &stop, &lost);
    while (lost && tess_launch_await());
    requests = NULL;
    return code;
}
