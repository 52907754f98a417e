/* The two halves of tess_pipeline_check: each list by itself, and all ranks running. */
#ifndef TESS_PARALLEL_PIPELINE_PIPELINE_CHECK_IMPL_H
#define TESS_PARALLEL_PIPELINE_PIPELINE_CHECK_IMPL_H

#include "parallel/pipeline/pipeline.h"

enum { PIPELINE_ACTION_BYTES = 96 };
/* "rank 1, action 5 (RECV_F of chunk 0, micro-batch 3)". Returns text. */
const char *pipeline_action_text(const tess_pipeline_schedule *schedule, int rank, int index,
                                 char text[PIPELINE_ACTION_BYTES]);

/* Looks at the list of one rank; notes in the report what it holds at most. `work` is
 * pipeline_list_work ints. TESS_E_INVALID names what is missing, done twice, out of order or in a taken slot. */
size_t pipeline_list_work(const tess_pipeline_schedule *schedule);
tess_status pipeline_check_list(const tess_pipeline_schedule *schedule, int rank, int *work,
                                tess_pipeline_report *report);

/* Lets all ranks run lists that are right by themselves; fills in the report's times. TESS_E_INVALID: a message comes
 * before another that is waited for, or ranks wait for each other. */
tess_status pipeline_simulate(const tess_pipeline_schedule *schedule, const tess_pipeline_costs *costs,
                              tess_pipeline_report *report);

#endif
