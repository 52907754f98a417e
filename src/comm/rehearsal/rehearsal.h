/* A rehearsal of collectives: each rank records its operations without running them, and the ranks compare the records
 * before anything depends on them. */
#ifndef TESS_COMM_REHEARSAL_H
#define TESS_COMM_REHEARSAL_H

#include "tessera/comm.h"

/* Begins a rehearsal on the ranks of `whole`. This rank's collectives are only recorded; they complete at once and
 * do not change buffers. No calls may be made on teams that have other ranks. Calls that allocate or free shared
 * memory, or split a team, still run. */
tess_status tess_rehearsal_begin(tess_team *whole);
/* Records a number that must be equal on all ranks, such as 4 in "4 of a step's micro-batches". At most one in a
 * rehearsal. `what` is borrowed until the rehearsal ends. */
tess_status tess_rehearsal_count(tess_runtime *runtime, const char *what, int64_t number);
/* Declares which ranks make the same calls, in one order on all teams: those of the same group. (Stages of a
 * pipeline are different groups.) Ranks of different groups compare only their calls on `whole` and their messages
 * to each other. Without this call, all ranks are one group. */
void tess_rehearsal_group(tess_runtime *runtime, int group);
/* Ends the rehearsal and compares the records. Returns TESS_E_MISMATCH if they differ. The message shows the first
 * different line, and names the ranks that differ from the majority. Collective over `whole`. */
tess_status tess_rehearsal_end(tess_runtime *runtime);
/* Ends the rehearsal after a failure without comparing the records. */
void tess_rehearsal_drop(tess_runtime *runtime);

#endif
