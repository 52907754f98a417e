/* The board in words: what a rank does, and how it ended. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "comm/job/job.h"

static const double silent_s = 1; /* an agent writes ten times a second */

static size_t clamp(int written, size_t size)
{
    return written < 0 ? 0 : (size_t)written < size ? (size_t)written : size - 1;
}

/* "on host h2 ", or nothing in a job of one host. */
static size_t describe_host(const tess_job *job, int rank, char *text, size_t size)
{
    text[0] = '\0';
    if (job->header->n_hosts <= 1)
        return 0;
    return clamp(snprintf(text, size, "on host %s ", job->header->hosts[job->rows[rank].host].name), size);
}

/* "in X" while it goes on, "after X" when it is done; "before its first operation". */
static size_t describe_op(const tess_board_copy *copy, char *text, size_t size)
{
    char what[256];
    if (copy->op.kind == TESS_TRACE_NONE)
        return clamp(snprintf(text, size, "before its first operation"), size);
    return clamp(snprintf(text, size, "%s %s", copy->op_state == TESS_TRACE_COMPLETED ? "after" : "in",
                          tess_fingerprint_format(&copy->op, copy->op_team, what, sizeof(what))),
                 size);
}

static size_t describe_phase(const tess_board_copy *copy, char *text, size_t size)
{
    if (copy->phase[0] == '\0')
        return 0;
    size_t at = clamp(snprintf(text, size, ", in phase '%s'", copy->phase), size);
    if (copy->step >= 0)
        at += clamp(snprintf(text + at, size - at, " of step %lld", (long long)copy->step), size - at);
    if (copy->detail >= 0)
        at += clamp(snprintf(text + at, size - at, " (%lld)", (long long)copy->detail), size - at);
    return at;
}

/* A rank of a host that is silent may be well: then its host or the way to it is what is wrong. */
static void describe_silence(const tess_job *job, int rank, char *text, size_t size)
{
    int number = job->rows[rank].host;
    const tess_job_host *host = &job->header->hosts[number];
    uint64_t heard = atomic_load(&host->heard_ns), now = tess_os_now_ns();
    double heard_s = now > heard ? (double)(now - heard) * 1e-9 : 0;
    if (number != (int)job->header->host && atomic_load(&host->state) == JOB_HOST_UP && heard_s > silent_s)
        snprintf(text, size, ", nothing heard of host %s for %.1f s (down, or the link is cut)", host->name, heard_s);
}

const char *tess_board_describe(const tess_job *job, int rank, char *text, size_t size)
{
    tess_board_copy copy;
    tess_board_export(&job->rows[rank], &copy);
    size_t at = describe_host(job, rank, text, size);
    if (copy.state == JOB_RANK_ABSENT) {
        snprintf(text + at, size - at, "has not joined the job");
        return text;
    }
    at += clamp(snprintf(text + at, size - at, "is "), size - at);
    at += describe_op(&copy, text + at, size - at);
    at += describe_phase(&copy, text + at, size - at);
    if (copy.run_state == 'T' || copy.run_state == 't')
        at += clamp(snprintf(text + at, size - at, ", is stopped (state %c)", (char)copy.run_state), size - at);
    at += clamp(snprintf(text + at, size - at, ", last seen %.1f s ago", (double)copy.age_ns * 1e-9), size - at);
    describe_silence(job, rank, text + at, size - at);
    return text;
}

const char *tess_board_describe_end(const tess_job *job, int rank, char *text, size_t size)
{
    tess_board_copy copy;
    tess_board_export(&job->rows[rank], &copy);
    size_t at = clamp(snprintf(text, size, "rank %d ", rank), size);
    at += describe_host(job, rank, text + at, size - at);
    if (copy.state == JOB_RANK_LOST && copy.signal != 0) {
        const char *name = sigabbrev_np(copy.signal);
        at += clamp(
            snprintf(text + at, size - at, "was killed by signal %d (SIG%s) ", copy.signal, name != NULL ? name : "?"),
            size - at);
    } else if (copy.state == JOB_RANK_LOST && copy.exit_code != 0) {
        at += clamp(snprintf(text + at, size - at, "exited with code %d ", copy.exit_code), size - at);
    } else if (copy.state == JOB_RANK_LOST) {
        at += clamp(snprintf(text + at, size - at, "was lost with its host (the connection to its agent closed) "),
                    size - at);
    } else if (copy.state == JOB_RANK_GONE) {
        at +=
            clamp(snprintf(text + at, size - at, "exited with code 0 without leaving the job (tess_runtime_destroy) "),
                  size - at);
    } else {
        at += clamp(snprintf(text + at, size - at, "left the job (tess_runtime_destroy) "), size - at);
    }
    at += describe_op(&copy, text + at, size - at);
    describe_phase(&copy, text + at, size - at);
    return text;
}
