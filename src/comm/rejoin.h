/* Lets a rank rejoin its job after another rank was lost, and gives access to its persistent memory. */
/* clang-format off */
/*  rank 2 is killed          ranks 0 1 3                        launcher
 *       |                     fall out of their collectives       decides (policy.h), waits until all await
 *       |                     give back what lies in the job,     empties the job's memory in place
 *       |                     await  (tess_launch_await)          starts rank 2
 *       +---- all: runtime, teams, engine anew; weights and moments are found by name, not made ------+
 *       |   logbook (train/logbook.h): done, committed: two entries a rank -> all agree on the step   |
 *       |   nobody had committed the step: all do it again       somebody had: all end its update     |
 *       +---- the data's position, what is due after the step (metrics, validation, save), next step -+ */
/* clang-format on */
#ifndef TESS_COMM_REJOIN_H
#define TESS_COMM_REJOIN_H

#include "job/persist/persist.h"
#include "tessera/runtime.h"
#include "trace/ring.h"

/* Whether a rank of this job has been lost, so that later failures in this process are consequences. */
bool tess_launch_has_lost(const tess_runtime *runtime);
/* Returns where this rank is: its step and the steps done (-1: before the first), and the name of its phase. */
void tess_launch_place(const tess_runtime *runtime, int64_t *step, int64_t *steps_done,
                       char phase[TESS_TRACE_PHASE_BYTES]);
/* Waits for the launcher's decision. The rank must have no runtime: it was destroyed, or not created because a peer
 * was lost. Returns true if the job restarts: the caller creates a runtime again. Returns false if the job ends, or
 * if its launcher does not recover jobs. */
bool tess_launch_await(void);
/* Whether the launcher can replace a lost rank. May be called in a signal handler. */
bool tess_launch_recovers(const tess_runtime *runtime);
/* Whether ranks were lost twice in optional work after `step`, such as a validation. That work is then not tried
 * again. Returns the same on all ranks. */
bool tess_launch_omits(const tess_runtime *runtime, int64_t step);
/* Reports to the launcher that all ranks have met again and continue after `step`. */
void tess_launch_resumed(tess_runtime *runtime, int64_t step);

/* Returns this rank's block of persistent memory, which stays mapped until the runtime ends; NULL: none. */
tess_persist *tess_persist_of(const tess_runtime *runtime);
/* Returns this rank's block of persistent memory on disk; NULL: none. */
tess_persist *tess_persist_disk_of(const tess_runtime *runtime);

#endif
