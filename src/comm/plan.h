/* Planned collectives: what a rank would ask for, written down without asking, and compared over all ranks before
 * anything depends on it. */
#ifndef TESS_COMM_PLAN_H
#define TESS_COMM_PLAN_H

#include "tessera/comm.h"

/* From here on this rank's collectives are written down and taken for done: buffers stay as they are. What gets or
 * frees shared memory, or splits a team, is made all the same. */
tess_status tess_plan_begin(tess_runtime *runtime);
/* A line of the plan that is no operation: every rank must have as many (4) of something ("a step's micro-batches"); a
 * plan has one such line. `what` is borrowed until the plan ends. */
tess_status tess_plan_count(tess_runtime *runtime, const char *what, int64_t number);
/* From here on they are made again. Collective over the job's ranks: compares the plans. TESS_E_MISMATCH: the message
 * shows the first line in which they differ, and names the odd ranks by majority. */
tess_status tess_plan_end(tess_runtime *runtime);
/* The same after a failure: nothing is compared. */
void tess_plan_drop(tess_runtime *runtime);

#endif
