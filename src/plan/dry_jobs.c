#include "plan/dry_jobs.h"

#include <stdio.h>

#include "base/os/os.h"
#include "base/os/threads.h"
#include "device/dry/work_trace.h"

struct tess_dry_workers {
    tess_mem *mem;
    tess_threads *threads;
    tess_mem *of_worker[TESS_DRY_WORKERS]; /* memory of traces: a tess_mem serves one thread at a time */
};

tess_status tess_dry_workers_create(tess_mem *mem, tess_dry_workers **out)
{
    const int cores = tess_os_cores(), n = cores < TESS_DRY_WORKERS ? cores : TESS_DRY_WORKERS;
    tess_dry_workers *w;
    TESS_TRY(TESS_NEW(mem, 1, "workers", &w));
    w->mem = mem;
    tess_status status = tess_threads_create(mem, n, &w->threads);
    for (int i = 0; i < n && status == TESS_OK; i++)
        status = tess_mem_create(&w->of_worker[i]);
    if (status != TESS_OK)
        tess_dry_workers_destroy(&w);
    *out = w;
    return status;
}

void tess_dry_workers_destroy(tess_dry_workers **handle)
{
    tess_dry_workers *w = *handle;
    if (w == NULL)
        return;
    if (w->threads != NULL)
        tess_threads_destroy(&w->threads);
    for (int i = 0; i < TESS_DRY_WORKERS; i++)
        if (w->of_worker[i] != NULL)
            tess_mem_destroy(&w->of_worker[i]);
    tess_mem_free(w->mem, w);
    *handle = NULL;
}

int tess_dry_workers_count(const tess_dry_workers *workers)
{
    return tess_threads_count(workers->threads);
}

typedef struct all_jobs {
    tess_dry_workers *workers;
    tess_dry_job *jobs;
} all_jobs;

static void run_jobs(void *context, int64_t begin, int64_t end, int worker)
{
    const all_jobs *all = context;
    for (tess_dry_job *job = all->jobs + begin; job < all->jobs + end; job++) {
        if (job->plan.trace != NULL)
            job->plan.trace->mem = all->workers->of_worker[worker];
        job->status = tess_dry_rank(&job->plan, job->model, job->rank, &job->report);
        if (job->status == TESS_OK)
            continue;
        snprintf(job->message, sizeof(job->message), "%s", tess_error_message());
        tess_error_clear();
    }
}

void tess_dry_workers_run(tess_dry_workers *workers, tess_dry_job *jobs, int n)
{
    all_jobs all = {workers, jobs};
    tess_threads_run(workers->threads, run_jobs, &all, n, 1);
}

tess_status tess_dry_job_end(const tess_dry_job *job)
{
    TESS_CHECK(job->status == TESS_OK, job->status, "%s", job->message);
    return TESS_OK;
}
