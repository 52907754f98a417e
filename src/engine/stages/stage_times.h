/* When a rank's actions of a pipeline ran, and now and then when all ranks' did: the measured timeline. */
#ifndef TESS_ENGINE_STAGES_STAGE_TIMES_H
#define TESS_ENGINE_STAGES_STAGE_TIMES_H

#include "parallel/pipeline/pipeline.h"
#include "tessera/comm.h"

typedef struct tess_stage_times {
    tess_mem *mem;
    tess_pipeline_time *own; /* (actions of this rank's list) times of the newest step, in ms of this host's clock */
    tess_pipeline_report report;  /* report of all ranks, on the first rank of the pipeline */
    bool is_new;                  /* nobody has asked for the report yet */
    tess_pipeline_time *gathered; /* (ranks, actions of the longest list) */
} tess_stage_times;

/* Room for a schedule; again for another. Close it also after a failure. */
tess_status tess_stage_times_open(tess_mem *mem, const tess_pipeline_schedule *schedule, tess_stage_times *times);
void tess_stage_times_close(tess_stage_times *times);

/* This moment, in ms of this host's clock. */
double tess_stage_now(void);

/* The first rank of the pipeline gets everybody's times: times->report. Between hosts clocks meet at a barrier, so rows
 * are as far off as it takes to leave one. Collective over the team of the pipeline's ranks. */
tess_status tess_stage_times_gather(tess_stage_times *times, tess_team *team, const tess_pipeline_schedule *schedule);

#endif
