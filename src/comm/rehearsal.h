/* A rehearsal of collectives: what a rank would ask for, written down without asking, and compared over all ranks
 * before anything depends on it. */
#ifndef TESS_COMM_REHEARSAL_H
#define TESS_COMM_REHEARSAL_H

#include "tessera/comm.h"

/* From here on this rank's collectives are written down and taken for done: buffers stay as they are. What gets or
 * frees shared memory, or splits a team, is made all the same. */
tess_status tess_rehearsal_begin(tess_runtime *runtime);
/* A line that is no operation: every rank must have as many (4) of something ("a step's micro-batches"). At most one in
 * a rehearsal. `what` is borrowed until the rehearsal ends. */
tess_status tess_rehearsal_count(tess_runtime *runtime, const char *what, int64_t number);
/* From here on they are made again. Collective over the job's ranks: compares what was written down. TESS_E_MISMATCH:
 * the message shows the first line in which they differ, and names the odd ranks by majority. */
tess_status tess_rehearsal_end(tess_runtime *runtime);
/* The same after a failure: nothing is compared. */
void tess_rehearsal_drop(tess_runtime *runtime);

#endif
