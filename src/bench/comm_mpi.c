/* Runs mpirun as a child and reads its figures from a pipe. It leads a process group, so that it can be killed with all
 * that it has started. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/os/os.h"
#include "bench/comm_job.h"

enum { MAX_ARGUMENTS = 16 + COMM_PLAN_SIZES, NUMBER_BYTES = 24, LINE_BYTES = 128 };

#define GRACE_S 5 /* for mpirun to end its ranks, which may lead process groups of their own */

typedef struct command {
    char *argv[MAX_ARGUMENTS];
    int n;
    char ranks[NUMBER_BYTES], bytes[COMM_PLAN_SIZES][NUMBER_BYTES];
} command;

static void add(command *c, const char *argument)
{
    c->argv[c->n++] = (char *)argument;
    c->argv[c->n] = NULL;
}

static void fill(command *c, const comm_case *which, const comm_peer *peer)
{
    *c = (command){0};
    snprintf(c->ranks, sizeof(c->ranks), "%d", which->ranks);
    add(c, "mpirun");
    add(c, "--oversubscribe");
    if (geteuid() == 0)
        add(c, "--allow-run-as-root");
    if (peer->yields) {
        add(c, "--mca");
        add(c, "mpi_yield_when_idle");
        add(c, "1");
    }
    add(c, "-n");
    add(c, c->ranks);
    add(c, peer->program);
    add(c, which->op->peer);
    add(c, tess_dtype_name(which->dtype));
    for (int i = 0; i < which->n_sizes; i++) {
        snprintf(c->bytes[i], sizeof(c->bytes[i]), "%zu", which->bytes[i]);
        add(c, c->bytes[i]);
    }
}

typedef struct child {
    pid_t pid; /* and its group */
    int out;   /* what it prints */
    double patience_s;
    bool late; /* it printed nothing for longer */
    int state; /* of wait(2), once it has ended */
} child;

static void run_child(const command *c, int out)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* a terminal's ctrl-C does not reach its group */
    dup2(null, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(null, STDERR_FILENO); /* warnings about the machine */
    execvp(c->argv[0], c->argv);
    _exit(127);
}

static tess_status start(const command *c, child *ch)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return tess_os_error("pipe", "for mpirun");
    fflush(NULL);
    ch->pid = fork();
    if (ch->pid == 0)
        run_child(c, ends[1]);
    close(ends[1]);
    if (ch->pid < 0) {
        close(ends[0]);
        return tess_os_error("fork", "for mpirun");
    }
    setpgid(ch->pid, ch->pid); /* by both processes: either may run first */
    ch->out = ends[0];
    return TESS_OK;
}

/* Reads a line of its output. False: there is none in time, or it is too long. */
static bool read_line(child *ch, char *line)
{
    double until = tess_os_now_s() + ch->patience_s, left;
    size_t n = 0;
    while ((left = until - tess_os_now_s()) > 0 && n + 1 < LINE_BYTES) {
        struct pollfd wanted = {.fd = ch->out, .events = POLLIN};
        if (poll(&wanted, 1, 1 + (int)(left * 1e3)) <= 0)
            continue;
        if (read(ch->out, line + n, 1) != 1)
            return false;
        line[n + 1] = '\0';
        if (line[n++] == '\n')
            return true;
    }
    ch->late = left <= 0;
    return false;
}

static int read_times(child *ch, const comm_case *which, comm_time *times)
{
    int n = 0;
    char line[LINE_BYTES];
    while (n < which->n_sizes && read_line(ch, line)) {
        size_t bytes;
        comm_time time;
        if (sscanf(line, "%zu %lf %lf", &bytes, &time.median_us, &time.min_us) == 3 && bytes == which->bytes[n])
            times[n++] = time;
    }
    return n;
}

static bool ends_within(child *ch, double seconds)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    for (double until = tess_os_now_s() + seconds; waitpid(ch->pid, &ch->state, WNOHANG) != ch->pid;) {
        if (tess_os_now_s() > until)
            return false;
        nanosleep(&nap, NULL);
    }
    return true;
}

/* Waits for the end of the child; kills it when that takes too long. */
static void finish(child *ch)
{
    close(ch->out);
    ch->late = ch->late || !ends_within(ch, ch->patience_s);
    if (!ch->late)
        return;
    kill(-ch->pid, SIGTERM);
    bool ended = ends_within(ch, GRACE_S);
    kill(-ch->pid, SIGKILL);
    while (!ended && waitpid(ch->pid, &ch->state, 0) < 0 && errno == EINTR)
        ;
}

tess_status comm_job_mpi(const comm_case *which, const comm_peer *peer, comm_time *times)
{
    command c;
    child ch = {.patience_s = peer->patience_s};
    fill(&c, which, peer);
    TESS_TRY(start(&c, &ch));
    int n = read_times(&ch, which, times);
    finish(&ch);
    TESS_CHECK(!ch.late, TESS_E_TIMEOUT,
               "mpirun was ended after %g s without %s %s of %zu bytes on %d ranks (%s): --mpi none leaves it out",
               peer->patience_s, n < which->n_sizes ? "a figure for" : "an end after", which->op->peer,
               which->bytes[n < which->n_sizes ? n : n - 1], which->ranks, peer->program);
    TESS_CHECK(n == which->n_sizes && WIFEXITED(ch.state) && WEXITSTATUS(ch.state) == 0, TESS_E_NOT_FOUND,
               "mpirun gave no figures of %s on %d ranks (%s)", which->op->peer, which->ranks, peer->program);
    return TESS_OK;
}
