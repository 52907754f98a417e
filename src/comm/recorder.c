/* Opens the ring in which a rank records its events. The ring is in the job's memory, or in a file of the trace
 * folder, which outlives the job. All pages of the ring are touched when it is opened, because the first write to a
 * page would add about 0.2 us to an operation. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os/machine.h"
#include "base/os/os.h"
#include "comm/comm_impl.h"
#include "trace/trace_folder.h"

void tess_recorder_begin(tess_runtime *rt)
{
    rt->ring = tess_job_ring(&rt->job, rt->rank);
    tess_os_populate(rt->ring, tess_trace_bytes(JOB_RING_EVENTS));
    tess_trace_owner *owner = &rt->ring->owner;
    ssize_t n = readlink("/proc/self/exe", owner->program, sizeof(owner->program) - 1);
    owner->program[n > 0 ? n : 0] = '\0';
    if (gethostname(owner->host, sizeof(owner->host) - 1) != 0)
        owner->host[0] = '\0';
    owner->pid = (int32_t)getpid();
    owner->wall_ns = tess_os_wall_ns();
    owner->monotonic_ns = tess_os_now_ns();
}

void tess_recorder_end(tess_runtime *rt)
{
    if (rt->ring_is_file)
        tess_trace_close(&rt->ring);
}

/* ---- Files: for all ranks or for none ---- */
/* Writes the absolute path of the folder to the board, unless it is too long. */
static void publish_folder(const tess_runtime *rt, const char *folder)
{
    char *whole = realpath(folder, NULL);
    const char *path = whole != NULL ? whole : folder;
    if (strlen(path) < sizeof(rt->job.header->trace_folder))
        snprintf(rt->job.header->trace_folder, sizeof(rt->job.header->trace_folder), "%s", path);
    free(whole);
}

/* All ranks continue or none does. All report the failure of the lowest rank that failed. */
static tess_status agree(tess_runtime *rt, tess_status status, const char *folder)
{
    int32_t failed = status != TESS_OK ? rt->world - rt->rank : 0;
    TESS_TRY(tess_all_reduce(rt->team, &failed, &failed, 1, TESS_I32, TESS_MAX, NULL));
    TESS_TRY(status);
    if (failed == 0)
        return TESS_OK;
    TESS_FAIL(TESS_E_IO, "trace folder %s: rank %d could not write there", folder, rt->world - failed);
    tess_runtime_report_of(rt, rt->world - failed, tess_error_message());
    return TESS_E_IO;
}

static tess_status make_ring(const tess_runtime *rt, const char *folder, tess_trace_ring **ring)
{
    char path[PATH_MAX];
    TESS_TRY(tess_os_make_dirs(folder));
    TESS_TRY(tess_trace_ring_path(folder, rt->rank, path, sizeof(path)));
    return tess_trace_create(path, JOB_RING_EVENTS, rt->rank, rt->world, ring);
}

tess_status tess_runtime_keep_trace(tess_runtime *rt, const char *folder)
{
    const tess_job *job = &rt->job;
    tess_trace_ring *ring = NULL;
    TESS_CHECK(folder != NULL && folder[0] != '\0', TESS_E_INVALID, "tess_runtime_keep_trace: there is no folder");
    if (rt->ring_is_file)
        return TESS_OK;
    /* Rank 0 moves an earlier job's files away before any rank writes there. */
    TESS_TRY(agree(rt, rt->rank == 0 ? tess_trace_folder_begin(folder) : TESS_OK, folder));
    tess_status status = agree(rt, make_ring(rt, folder, &ring), folder);
    if (status != TESS_OK) {
        tess_trace_close(&ring);
        return status;
    }
    tess_trace_copy(ring, rt->ring);
    rt->ring = ring;
    rt->ring_is_file = true;
    if (rt->rank == tess_job_first_rank(job))
        publish_folder(rt, folder);
    /* Clears the events in the job's memory after they have been copied. The header stays, because it identifies the
     * rank. */
    uint64_t offset = (uint64_t)((const uint8_t *)tess_job_ring(job, rt->rank) - job->base);
    tess_os_punch(job->fd, offset + TESS_TRACE_HEADER_BYTES, job->layout.ring_bytes - TESS_TRACE_HEADER_BYTES);
    return TESS_OK;
}
