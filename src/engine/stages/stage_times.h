/* Records when a rank's actions of a pipeline ran, and at intervals gathers the times of all ranks: the measured
 * timeline. */
#ifndef TESS_ENGINE_STAGES_STAGE_TIMES_H
#define TESS_ENGINE_STAGES_STAGE_TIMES_H

#include "parallel/pipeline/pipeline.h"
#include "tessera/comm.h"

typedef struct tess_stage_times {
    tess_mem *mem;
    tess_pipeline_time *own; /* (actions of this rank's list) times of the latest step, in ms of this host's clock */
    tess_pipeline_report report;  /* report of all ranks, on the first rank of the pipeline */
    bool is_new;                  /* the report has not been read yet */
    tess_pipeline_time *gathered; /* (ranks, actions of the longest list) times of all ranks */
} tess_stage_times;

/* Allocates the arrays for a schedule. Call it again for another schedule. Close it also after a failure. */
tess_status tess_stage_times_open(tess_mem *mem, const tess_pipeline_schedule *schedule, tess_stage_times *times);
void tess_stage_times_close(tess_stage_times *times);

/* This moment, in ms of this host's clock. */
double tess_stage_now(void);

/* Gathers the times of all ranks in times->report on the first rank of the pipeline. Clocks of different hosts are
 * aligned at a barrier, so the error is the time it takes to leave one. Collective over the team of the pipeline's
 * ranks. */
tess_status tess_stage_times_gather(tess_stage_times *times, tess_team *team, const tess_pipeline_schedule *schedule);

#endif
