/* Lets a rank rejoin its job after another rank was lost. It waits outside the job until the launcher has cleared
 * the job's memory. */
#include "comm/rejoin.h"

#include <limits.h>

#include "base/os/os.h"
#include "comm/comm_impl.h"
#include "job/environment.h"

static const uint64_t look_ns = 100000000;

bool tess_launch_has_lost(const tess_runtime *runtime)
{
    return atomic_load(&runtime->job.header->first_lost) >= 0;
}

void tess_launch_place(const tess_runtime *runtime, int64_t *step, int64_t *steps_done,
                       char phase[TESS_TRACE_PHASE_BYTES])
{
    const tess_job_row *row = &runtime->job.rows[runtime->rank];
    *step = atomic_load(&row->step);
    *steps_done = (int64_t)atomic_load(&row->n_steps);
    tess_board_phase_of(row, phase);
}

/* Opens the launcher's memory, found through the environment. Returns false if there is no launcher, or if it is one
 * for MPI. */
static bool open_job(tess_job *job, int *rank)
{
    tess_environment environment;
    int fd;
    bool there = tess_environment_read(&environment) == TESS_OK && environment.starter == TESS_STARTER_TESSERA &&
                 tess_environment_number(TESS_VAR_SHM_FD, 0, INT_MAX, &fd) == TESS_OK &&
                 tess_job_open(fd, environment.world, job) == TESS_OK;
    *rank = environment.rank;
    return there;
}

/* The epoch is read first: once the launcher counts this rank as ready, the epoch may change. */
static bool await(const tess_job *job, int rank)
{
    tess_job_header *header = job->header;
    uint32_t epoch = atomic_load(&header->epoch);
    if (atomic_load(&header->recovers) == 0)
        return false;
    atomic_store(&job->rows[rank].awaits, 1);
    while (atomic_load(&header->epoch) == epoch && atomic_load(&header->is_over) == 0)
        tess_os_futex_wait((const uint32_t *)(const void *)&header->epoch, epoch, look_ns);
    return atomic_load(&header->epoch) != epoch;
}

bool tess_launch_await(void)
{
    tess_job job;
    int rank;
    bool again = false;
    if (open_job(&job, &rank)) {
        again = await(&job, rank);
        tess_job_close(&job, false);
    }
    tess_error_clear();
    return again;
}

bool tess_launch_recovers(const tess_runtime *runtime)
{
    return atomic_load(&runtime->job.header->recovers) != 0;
}

bool tess_launch_omits(const tess_runtime *runtime, int64_t step)
{
    for (int i = 0; i < JOB_OMITTED; i++)
        if (step > 0 && atomic_load(&runtime->job.header->omitted[i]) == step)
            return true;
    return false;
}

void tess_launch_resumed(tess_runtime *runtime, int64_t step)
{
    atomic_store(&runtime->job.header->resumed_step, step);
}

tess_persist *tess_persist_of(const tess_runtime *runtime)
{
    return runtime->persist;
}

tess_persist *tess_persist_disk_of(const tess_runtime *runtime)
{
    return runtime->persist_disk;
}
