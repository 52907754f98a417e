/* Runs mpirun and reads its figures. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/os/program.h"
#include "bench/comm/comm_job.h"

enum { MAX_ARGUMENTS = 16 + COMM_PLAN_SIZES, NUMBER_BYTES = 24, OUTPUT_BYTES = 128 * COMM_PLAN_SIZES };

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

static int read_times(const char *text, const comm_case *which, comm_time *times)
{
    int n = 0;
    for (const char *line = text; line != NULL && n < which->n_sizes; line = strchr(line, '\n')) {
        size_t bytes;
        comm_time time;
        line += *line == '\n';
        if (sscanf(line, "%zu %lf %lf", &bytes, &time.median_us, &time.min_us) == 3 && bytes == which->bytes[n])
            times[n++] = time;
    }
    return n;
}

tess_status comm_job_mpi(const comm_case *which, const comm_peer *peer, comm_time *times)
{
    command c;
    char text[OUTPUT_BYTES];
    fill(&c, which, peer);
    tess_status status = tess_os_capture(c.argv, peer->patience_s, text, sizeof(text));
    int n = read_times(text, which, times);
    TESS_CHECK(status != TESS_E_TIMEOUT, TESS_E_TIMEOUT,
               "mpirun was ended after %g s without %s %s of %zu bytes on %d ranks (%s): --mpi none leaves it out",
               peer->patience_s, n < which->n_sizes ? "a figure for" : "an end after", which->op->peer,
               which->bytes[n < which->n_sizes ? n : n - 1], which->ranks, peer->program);
    TESS_CHECK(status == TESS_OK && n == which->n_sizes, TESS_E_NOT_FOUND,
               "mpirun gave no figures of %s on %d ranks (%s)", which->op->peer, which->ranks, peer->program);
    return TESS_OK;
}
