#include "control/launch/mpirun/launch_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/os.h"
#include "control/launch/child.h"
#include "control/launch/mpirun/relay.h"

enum {
    MPIRUN_DEPTH = 2,       /* hydra has one process between itself and the ranks */
    MOST_LOOKS_ALONE = 10,  /* checks, one a second, that mpirun may stay after its ranks on this host have ended */
    CODE_INTERRUPTED = 130, /* exit code of ranks that were interrupted and have saved */
    CODE_OUT_OF_TOUCH = 205 /* Open MPI has lost a host: it exits with -51, in eight bits */
};
static const double same_stop_s = 1.1;
static const double look_s = 1;

typedef struct launched {
    const tess_launch_watch *watch;
    pid_t mpirun;
    int n_stops, stop_signal;
    double stop_s; /* when the newest request to stop came */
    bool had_wardens;
    int n_alone; /* number of checks in a row that found no warden */
    double next_look_s;
    int signals_fd;
    int words[2]; /* pipe to its standard input, if used; both ends stay open, so that it never breaks */
    launch_relay output, errors;
} launched;

/* Returns the signal that ends mpirun and all ranks. */
static int end_signal(tess_mpi mpi)
{
    return mpi == TESS_MPI_OPEN_MPI ? SIGINT : SIGTERM;
}

/* ---- The child ---- */
/* Executes mpirun in the child. Open MPI answers a SIGTERM, or a ctrl-C of the terminal, with SIGTERM to the ranks,
 * and SIGKILL one second later. By then it forwards no output, so a rank that writes is blocked. So mpirun runs in
 * its own process group, without the terminal's input, and blocks SIGTERM. A SIGTERM sent to mpirun alone stays
 * pending, where we see it. (mpirun unblocks all signals in its own children.) */
_Noreturn static void become(const tess_launch_line *line, tess_mpi mpi, const tess_child_signals *signals,
                             pid_t parent, int report_fd, int word_fd, const int *outputs)
{
    sigset_t blocked;
    tess_child_begin(signals, parent);
    signal(SIGPIPE, SIG_DFL); /* this process ignores it, but mpirun must not */
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    if (mpi == TESS_MPI_OPEN_MPI)
        pthread_sigmask(SIG_BLOCK, &blocked, NULL);
    prctl(PR_SET_PDEATHSIG, end_signal(mpi));
    setpgid(0, 0);
    int input = word_fd >= 0 ? word_fd : open("/dev/null", O_RDONLY);
    if (input >= 0)
        dup2(input, STDIN_FILENO);
    dup2(outputs[0], STDOUT_FILENO);
    dup2(outputs[1], STDERR_FILENO);
    tess_child_exec(NULL, line->words, report_fd);
}

/* ---- Requests to stop ---- */
/* Passes on a request to stop. Signals within a second are one request, as in the wardens (agent/warden_stop.c), and
 * so are several SIGHUP. */
static void ask_to_stop(launched *l, int signal)
{
    /* This signal makes mpirun ask all wardens to stop. Open MPI passes SIGUSR2 on and does nothing else; hydra
     * passes SIGINT on and waits. */
    int polite = l->watch->mpi == TESS_MPI_OPEN_MPI ? SIGUSR2 : SIGINT;
    double now_s = tess_os_now_s();
    if (l->n_stops > 0 && (now_s - l->stop_s < same_stop_s || signal == SIGHUP))
        return;
    l->stop_s = now_s;
    if (l->n_stops++ == 0)
        l->stop_signal = tess_stop_signal_of(signal);
    kill(l->n_stops <= 2 ? l->mpirun : -l->mpirun, l->n_stops <= 2 ? polite : SIGKILL);
}

static void take_signal(launched *l, int signal)
{
    bool asks = signal == SIGINT || signal == SIGTERM || signal == SIGUSR2 || signal == SIGHUP;
    if (asks || (signal == SIGUSR1 && l->watch->usr1_stops))
        ask_to_stop(l, signal);
    else if (signal == SIGUSR1)
        kill(l->mpirun, SIGUSR1);
}

/* Whether a SIGTERM is pending for mpirun. */
static bool mpirun_was_asked(pid_t mpirun)
{
    char path[64], line[256];
    unsigned long long pending = 0, mask;
    snprintf(path, sizeof(path), "/proc/%d/status", (int)mpirun);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        if (sscanf(line, "ShdPnd: %llx", &mask) == 1 || sscanf(line, "SigPnd: %llx", &mask) == 1)
            pending |= mask;
    if (file != NULL)
        fclose(file);
    return (pending >> (SIGTERM - 1) & 1) != 0;
}

/* ---- An mpirun that does not end ---- */
/* Counts the processes of this program below `pid`: the wardens of ranks on this host. */
static int count_wardens(pid_t pid, int depth)
{
    char path[64];
    int n = 0, child;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
    FILE *file = fopen(path, "re");
    while (file != NULL && fscanf(file, "%d", &child) == 1) {
        snprintf(path, sizeof(path), "/proc/%d/exe", child);
        if (tess_os_same_file(path, "/proc/self/exe"))
            n++;
        else if (depth > 0)
            n += count_wardens(child, depth - 1);
    }
    if (file != NULL)
        fclose(file);
    return n;
}

/* Ends mpirun if it stays although its ranks here have ended. Ranks whose link was cut end at their deadline, but
 * mpirun stays until the system gives up sending to the other host. */
static void end_if_alone(launched *l)
{
    bool wardens = count_wardens(l->mpirun, MPIRUN_DEPTH) > 0;
    l->n_alone = l->had_wardens && !wardens ? l->n_alone + 1 : 0;
    l->had_wardens = l->had_wardens || wardens;
    if (l->n_alone == MOST_LOOKS_ALONE || l->n_alone == 2 * MOST_LOOKS_ALONE)
        kill(-l->mpirun, l->n_alone == MOST_LOOKS_ALONE ? end_signal(l->watch->mpi) : SIGKILL);
}

/* ---- The loop ---- */
static void look(launched *l)
{
    double now_s = tess_os_now_s();
    if (now_s < l->next_look_s)
        return;
    l->next_look_s = now_s + look_s;
    if (l->n_stops == 0 && mpirun_was_asked(l->mpirun))
        ask_to_stop(l, SIGTERM);
    end_if_alone(l);
    const char *word = l->watch->next_input != NULL ? l->watch->next_input(l->watch->self) : NULL;
    if (word != NULL)
        (void)!write(l->words[1], word, strlen(word));
}

static void wait_for_something(launched *l)
{
    struct signalfd_siginfo info;
    struct pollfd fds[] = {
        {.fd = l->signals_fd, .events = POLLIN}, launch_relay_waits(&l->output), launch_relay_waits(&l->errors)};
    poll(fds, 3, 1000);
    while (read(l->signals_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        take_signal(l, (int)info.ssi_signo);
    launch_relay_run(&l->output, l->watch);
    launch_relay_run(&l->errors, l->watch);
}

static void watch(launched *l, tess_launch_line_end *end)
{
    int state;
    l->next_look_s = tess_os_now_s() + look_s;
    while (waitpid(l->mpirun, &state, WNOHANG) != l->mpirun) {
        wait_for_something(l);
        look(l);
    }
    end->exit_code = WIFSIGNALED(state) ? 128 + WTERMSIG(state) : WEXITSTATUS(state);
    end->lost_host = l->watch->mpi == TESS_MPI_OPEN_MPI && end->exit_code == CODE_OUT_OF_TOUCH;
    end->in_touch = !end->lost_host && l->n_alone < MOST_LOOKS_ALONE && l->n_stops < 3;
    if (l->n_alone >= MOST_LOOKS_ALONE)
        end->exit_code = 1; /* this process ended mpirun */
    end->stop_signal = l->stop_signal;
    end->twice = l->n_stops > 1;
    if (l->stop_signal != 0 && end->exit_code != 0 && end->exit_code != CODE_INTERRUPTED)
        end->exit_code = 128 + l->stop_signal;
}

/* ---- Start ---- */
static tess_status open_pipes(launched *l, int report[2], int outputs[2])
{
    if (pipe2(report, O_CLOEXEC) != 0 || (l->watch->next_input != NULL && pipe2(l->words, O_CLOEXEC) != 0))
        return tess_os_error("pipe", "for mpirun");
    if (l->words[1] >= 0)
        fcntl(l->words[1], F_SETFL, O_NONBLOCK); /* a word that mpirun does not read is lost, and sent again later */
    TESS_TRY(launch_relay_open(&l->output, &outputs[0]));
    return launch_relay_open(&l->errors, &outputs[1]);
}

/* Starts mpirun, and closes the child's ends of the pipes in this process. */
static tess_status start(launched *l, const tess_launch_line *line, const tess_child_signals *signals)
{
    int report[2] = {-1, -1}, outputs[2] = {-1, -1};
    tess_status status = open_pipes(l, report, outputs);
    if (status == TESS_OK) {
        pid_t parent = getpid();
        fflush(NULL); /* otherwise the child would write our buffers again */
        l->mpirun = fork();
        if (l->mpirun == 0)
            become(line, l->watch->mpi, signals, parent, report[1], l->words[0], outputs);
        if (l->mpirun < 0)
            status = TESS_FAIL(TESS_E_NOMEM, "fork: %s", strerror(errno));
    }
    tess_os_close(&report[1]);
    tess_os_close(&outputs[0]);
    tess_os_close(&outputs[1]);
    if (status == TESS_OK)
        status = tess_child_started(line->words[0], report[0]);
    tess_os_close(&report[0]);
    return status;
}

tess_status tess_launch_line_run(const tess_launch_line *line, const tess_launch_watch *how, tess_launch_line_end *end)
{
    launched l = {.watch = how,
                  .mpirun = -1,
                  .words = {-1, -1},
                  .output = {.to = stdout, .from = -1},
                  .errors = {.to = stderr, .from = -1, .on_line = how->on_error_line}};
    tess_child_signals signals;
    *end = (tess_launch_line_end){.exit_code = 1};
    tess_child_block_signals(&signals);
    l.signals_fd = signalfd(-1, &signals.watched, SFD_CLOEXEC | SFD_NONBLOCK);
    tess_status status = l.signals_fd >= 0 ? start(&l, line, &signals) : tess_os_error("signalfd", "for mpirun");
    if (l.mpirun > 0)
        watch(&l, end);
    tess_os_close(&l.words[0]);
    tess_os_close(&l.words[1]);
    tess_os_close(&l.signals_fd);
    /* a signal ends this process from here on, also while it waits for the reader of its output */
    tess_child_restore_signals(&signals);
    launch_relay_end(&l.output, how);
    launch_relay_end(&l.errors, how);
    return status;
}
