/* A rehearsal of collectives: each rank records its operations without running them, and the ranks compare the records
 * before anything depends on them. */
#ifndef TESS_COMM_REHEARSAL_H
#define TESS_COMM_REHEARSAL_H

#include "tessera/comm.h"

/* Begins a rehearsal of the ranks of `whole`, which call nothing on teams that have others: this rank's collectives are
 * recorded and complete at once; buffers stay as they are. Calls that allocate or free shared memory, or split a team,
 * still run. */
tess_status tess_rehearsal_begin(tess_team *whole);
/* Records a number that every rank must have alike, such as 4 of "a step's micro-batches". At most one in a rehearsal.
 * `what` is borrowed until the rehearsal ends. */
tess_status tess_rehearsal_count(tess_runtime *runtime, const char *what, int64_t number);
/* Says which of these ranks call alike, in one order on all teams: those of the same group (stages of a pipeline do
 * not). Ranks of different groups compare what they call on `whole`, and their messages to each other.
 * Unless called, all ranks are one group. */
void tess_rehearsal_group(tess_runtime *runtime, int group);
/* Ends the rehearsal and compares the records. Collective over `whole`. TESS_E_MISMATCH: the message shows the
 * first line in which they differ, and names the ranks that differ from the majority. */
tess_status tess_rehearsal_end(tess_runtime *runtime);
/* Ends the rehearsal after a failure, without comparing. */
void tess_rehearsal_drop(tess_runtime *runtime);

#endif
