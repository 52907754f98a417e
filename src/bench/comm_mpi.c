/* The other side of the comparison: mpirun as a child, its figures through a pipe. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/os.h"
#include "bench/comm_job.h"

enum { MAX_ARGUMENTS = 16 + COMM_PLAN_SIZES, NUMBER_BYTES = 24 };

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

static void fill(command *c, const comm_question *q, const comm_peer *peer)
{
    *c = (command){0};
    snprintf(c->ranks, sizeof(c->ranks), "%d", q->ranks);
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
    add(c, q->op->peer);
    add(c, tess_dtype_name(q->dtype));
    for (int i = 0; i < q->n_sizes; i++) {
        snprintf(c->bytes[i], sizeof(c->bytes[i]), "%zu", q->bytes[i]);
        add(c, c->bytes[i]);
    }
}

static void run_child(const command *c, int out)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(null, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(null, STDERR_FILENO); /* its opinions about the machine */
    execvp(c->argv[0], c->argv);
    _exit(127);
}

static int read_times(FILE *in, const comm_question *q, comm_time *times)
{
    int n = 0;
    size_t bytes;
    comm_time time;
    while (n < q->n_sizes && fscanf(in, "%zu %lf %lf", &bytes, &time.median_us, &time.min_us) == 3)
        if (bytes == q->bytes[n])
            times[n++] = time;
    return n;
}

tess_status comm_job_mpi(const comm_question *q, const comm_peer *peer, comm_time *times)
{
    command c;
    int ends[2], state = 0;
    fill(&c, q, peer);
    if (pipe2(ends, O_CLOEXEC) != 0)
        return tess_os_error("pipe", "for mpirun");
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        run_child(&c, ends[1]);
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return tess_os_error("fork", "for mpirun");
    }
    FILE *in = fdopen(ends[0], "r");
    int n = in != NULL ? read_times(in, q, times) : 0;
    if (in != NULL)
        fclose(in);
    else
        close(ends[0]);
    while (waitpid(pid, &state, 0) < 0 && errno == EINTR)
        ;
    TESS_CHECK(n == q->n_sizes && WIFEXITED(state) && WEXITSTATUS(state) == 0, TESS_E_NOT_FOUND,
               "mpirun gave no figures of %s on %d ranks (%s)", q->op->peer, q->ranks, peer->program);
    return TESS_OK;
}
