/* Runs dry ranks next to each other, on all cores. A dry rank has a runtime and memory of its own, so what it reports
 * does not depend on others. */
#ifndef TESS_PLAN_DRY_JOBS_H
#define TESS_PLAN_DRY_JOBS_H

#include "plan/dry_rank.h"

enum { TESS_DRY_WORKERS = 8 };

typedef struct tess_dry_job {
    tess_memory_plan plan; /* its trace gets memory of the workers */
    const tess_model_config *model;
    int rank;
    tess_dry_report report;
    tess_status status;
    char message[256]; /* why it failed */
} tess_dry_job;

typedef struct tess_dry_workers tess_dry_workers;

/* Creates at most TESS_DRY_WORKERS workers, one for each core. */
tess_status tess_dry_workers_create(tess_mem *mem, tess_dry_workers **workers);
/* Destroy the traces of all jobs first. */
void tess_dry_workers_destroy(tess_dry_workers **workers);
int tess_dry_workers_count(const tess_dry_workers *workers);
/* Runs all jobs. Each has a status of its own. One thread at a time may call it. */
void tess_dry_workers_run(tess_dry_workers *workers, tess_dry_job *jobs, int n);
/* Returns the job's status, as an error of the calling thread. */
tess_status tess_dry_job_end(const tess_dry_job *job);

#endif
