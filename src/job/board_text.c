/* Describes the board's rows for people: what a rank is doing, and how it ended. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/text.h"
#include "job/job_memory.h"

static const double silent_s = 1; /* an agent sends ten times a second */

/* Writes "on host h2 "; nothing in a job of one host. */
static size_t describe_host(const tess_job *job, int rank, char *text, size_t size)
{
    text[0] = '\0';
    if (job->header->n_hosts <= 1)
        return 0;
    return tess_text_add(text, size, 0, "on host %s ", job->header->hosts[job->rows[rank].host].name);
}

/* Writes "in X" while the operation runs, "after X" when it is done, or "before its first operation". */
static size_t describe_op(const tess_board_copy *copy, char *text, size_t size)
{
    char what[256];
    if (copy->op.kind == TESS_TRACE_NONE)
        return tess_text_add(text, size, 0, "before its first operation");
    return tess_text_add(text, size, 0, "%s %s", copy->op_state == TESS_TRACE_COMPLETED ? "after" : "in",
                         tess_fingerprint_format(&copy->op, copy->op_team, what, sizeof(what)));
}

size_t tess_board_describe_phase(const tess_board_copy *copy, char *text, size_t size)
{
    text[0] = '\0';
    if (copy->phase[0] == '\0')
        return 0;
    size_t at = tess_text_add(text, size, 0, "in phase '%s'", copy->phase);
    if (copy->step >= 0)
        at = tess_text_add(text, size, at, " of step %lld", (long long)copy->step);
    if (copy->detail >= 0)
        at = tess_text_add(text, size, at, " (%lld)", (long long)copy->detail);
    return at;
}

size_t tess_board_describe_last(const tess_board_copy *copy, char *text, size_t size)
{
    size_t at = describe_op(copy, text, size);
    if (copy->phase[0] == '\0')
        return at;
    at = tess_text_add(text, size, at, ", ");
    return at + tess_board_describe_phase(copy, text + at, size - at);
}

/* Describes a silent host. Its ranks may be well: either the host is down, or the link to it is cut. */
static void describe_silence(const tess_job *job, int rank, char *text, size_t size)
{
    int number = job->rows[rank].host;
    const tess_job_host *host = &job->header->hosts[number];
    uint64_t heard = atomic_load(&host->heard_ns), now = tess_os_now_ns();
    double heard_s = now > heard ? (double)(now - heard) * 1e-9 : 0;
    if (number != (int)job->header->host && atomic_load(&host->state) == JOB_HOST_UP && heard_s > silent_s)
        snprintf(text, size, ", nothing heard of host %s for %.1f s (down, or the link is cut)", host->name, heard_s);
}

size_t tess_board_describe_device(const tess_job *job, int rank, char *text, size_t size, uint64_t *since_ns)
{
    text[0] = '\0';
    *since_ns = 0;
    return job->rows[rank].host != (int32_t)job->header->host
               ? 0
               : tess_device_log_describe(tess_job_device_log(job, rank), tess_os_now_ns(), 1, text, size, since_ns);
}

const char *tess_board_describe(const tess_job *job, int rank, char *text, size_t size)
{
    tess_board_copy copy;
    char device[200];
    uint64_t since_ns;
    tess_board_export(&job->rows[rank], &copy);
    size_t at = describe_host(job, rank, text, size);
    if (copy.state == JOB_RANK_ABSENT) {
        snprintf(text + at, size - at, "has not joined the job");
        return text;
    }
    at = tess_text_add(text, size, at, "is ");
    at += tess_board_describe_last(&copy, text + at, size - at);
    if (copy.run_state == 'T' || copy.run_state == 't')
        at = tess_text_add(text, size, at, ", is stopped (state %c)", (char)copy.run_state);
    at = tess_text_add(text, size, at, ", last seen %.1f s ago", (double)copy.age_ns * 1e-9);
    if (tess_board_describe_device(job, rank, device, sizeof(device), &since_ns) > 0)
        at = tess_text_add(text, size, at, "; of its device, %s", device);
    describe_silence(job, rank, text + at, size - at);
    return text;
}

const char *tess_board_describe_end(const tess_job *job, int rank, char *text, size_t size)
{
    tess_board_copy copy;
    tess_board_export(&job->rows[rank], &copy);
    size_t at = tess_text_add(text, size, 0, "rank %d ", rank);
    at += describe_host(job, rank, text + at, size - at);
    if (copy.state == JOB_RANK_LOST && copy.signal != 0) {
        const char *name = sigabbrev_np(copy.signal);
        at = tess_text_add(text, size, at, "was killed by signal %d (SIG%s) ", copy.signal, name != NULL ? name : "?");
    } else if (copy.state == JOB_RANK_LOST && copy.exit_code != 0) {
        at = tess_text_add(text, size, at, "exited with code %d ", copy.exit_code);
    } else if (copy.state == JOB_RANK_LOST) {
        const tess_job_host *host = &job->header->hosts[job->rows[rank].host];
        at = tess_text_add(text, size, at, "was lost with its host (%s) ",
                           atomic_load(&host->state) == JOB_HOST_SILENT
                               ? "nothing was heard of it, and mpirun ended the job: it is down, or the link is cut"
                               : "the connection to its agent closed");
    } else if (copy.state == JOB_RANK_GONE) {
        at = tess_text_add(text, size, at, "exited with code 0 without leaving the job (tess_runtime_destroy) ");
    } else if (copy.error[0] != '\0') {
        at = tess_text_add(text, size, at, "gave up ");
    } else {
        at = tess_text_add(text, size, at, "left the job (tess_runtime_destroy) ");
    }
    tess_board_describe_last(&copy, text + at, size - at);
    return text;
}
