/* A rank's seat in a job: what tess_runtime_create (src/runtime) is made of. */
#ifndef TESS_COMM_SEAT_H
#define TESS_COMM_SEAT_H

#include "tessera/runtime.h"
#include "trace/stream_log.h"

/* Does what tess_runtime_create does, without an observer (comm/work.h). */
tess_status tess_runtime_join_job(const tess_runtime_options *options, tess_runtime **runtime);
/* "rank 3 (host b) has no kernels 'amx': all ranks compute with 'avx512_bf16'"; "": all ranks have what the best has,
 * or a table was named. The same on all ranks. */
const char *tess_runtime_kernels_vote(const tess_runtime *runtime);
/* 1 + the number of restarts of the job. */
int64_t tess_runtime_life(const tess_runtime *runtime);
/* The earlier processes of a rank and their faults, in the job's memory. */
struct tess_rank_past *tess_runtime_past(const tess_runtime *runtime, int rank);
/* The set of faults that happened to earlier processes of any rank, also of ranks which the job no longer has. */
uint32_t tess_runtime_faults_before(const tess_runtime *runtime);
/* The log for tess_device_set_log: this rank's part of the job's memory, where the watchdog reads it. */
tess_device_log *tess_runtime_device_log(const tess_runtime *runtime);

/* Sets the tuning table for the next operations between hosts (hosts/choice.h). All ranks set the same table between
 * the same operations. Takes ownership of `tuning` (NULL: none) and gives the caller the previous table. */
struct tess_tuning *tess_runtime_set_tuning(tess_runtime *runtime, struct tess_tuning *tuning);

#endif
