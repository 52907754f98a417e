/* What a rank that outlives another does, and what it finds that was kept for it. */
#ifndef TESS_COMM_REJOIN_H
#define TESS_COMM_REJOIN_H

#include "job/persist/persist.h"
#include "tessera/runtime.h"

/* Whether a rank of this job has been lost: what failed here since failed because of that. */
bool tess_launch_has_lost(const tess_runtime *runtime);
/* For a rank without a runtime (destroyed, or not created because a peer was lost): waits for what the launcher
 * decides. True: the job begins anew, create a runtime again. False: it ends, or its launcher does not recover. */
bool tess_launch_await(void);
/* Whether a rank that is lost may be replaced. Safe in a signal handler. */
bool tess_launch_recovers(const tess_runtime *runtime);
/* Whether ranks were lost in what followed `step` and training does not need: it is not tried again. The same on all
 * ranks. */
bool tess_launch_omits(const tess_runtime *runtime, int64_t step);
/* Tells the launcher that this rank and all others have met anew, and go on after `step`. */
void tess_launch_resumed(tess_runtime *runtime, int64_t step);

/* This rank's block of kept memory, mapped as long as the runtime lives; NULL: there is none. */
tess_persist *tess_persist_of(const tess_runtime *runtime);

#endif
