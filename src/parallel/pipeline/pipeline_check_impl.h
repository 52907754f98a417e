/* The two halves of tess_pipeline_check: each list by itself, and all ranks running. */
#ifndef TESS_PARALLEL_PIPELINE_PIPELINE_CHECK_IMPL_H
#define TESS_PARALLEL_PIPELINE_PIPELINE_CHECK_IMPL_H

#include "parallel/pipeline/pipeline.h"

enum { PIPELINE_ACTION_BYTES = 96 };
/* "rank 1, action 5 (RECV_F of chunk 0, micro-batch 3)", or "row 2, cell 3 ('1F3')" if the action is from a file.
 * Returns text. */
const char *pipeline_action_text(const tess_pipeline_schedule *schedule, int rank, int index,
                                 char text[PIPELINE_ACTION_BYTES]);

/* Checks the list of one rank, and notes in the report how many slots it holds at most. `work` has room for
 * pipeline_list_work ints. TESS_E_INVALID: the message names the action that is missing, done twice, out of order or
 * in a slot that is in use. */
size_t pipeline_list_work(const tess_pipeline_schedule *schedule);
tess_status pipeline_check_list(const tess_pipeline_schedule *schedule, int rank, int *work,
                                tess_pipeline_report *report);

bool pipeline_is_send(tess_pipeline_op op);
/* Returns the rank at the other end of a message. */
int pipeline_peer(const tess_pipeline_schedule *schedule, int rank, const tess_pipeline_action *action);

/* Simulates all ranks, whose lists must be valid by themselves, and fills in the report's times. TESS_E_INVALID:
 * messages arrive in another order than they are received, or ranks wait for each other in a circle. */
tess_status pipeline_simulate(const tess_pipeline_schedule *schedule, const tess_pipeline_costs *costs,
                              tess_pipeline_report *report);

#endif
