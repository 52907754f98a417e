/* A rank's seat in a job: what tess_runtime_create (src/runtime) is made of. */
#ifndef TESS_COMM_SEAT_H
#define TESS_COMM_SEAT_H

#include "tessera/runtime.h"

/* As tess_runtime_create, without what observes the runtime (comm/work.h). */
tess_status tess_runtime_join_job(const tess_runtime_options *options, tess_runtime **runtime);
/* 1 + the times that the job began anew before. */
int64_t tess_runtime_life(const tess_runtime *runtime);

/* The table by which operations between hosts go from the next one on (hosts/choice.h): set alike, between the same
 * operations, on all ranks. Takes `tuning` over (NULL: none); returns the one that was in use, which is the caller's
 * from then on. */
struct tess_tuning *tess_runtime_set_tuning(tess_runtime *runtime, struct tess_tuning *tuning);

#endif
