/* A rank's seat in a job: the functions from which tess_runtime_create (src/runtime) is built. */
#ifndef TESS_COMM_SEAT_H
#define TESS_COMM_SEAT_H

#include "tessera/runtime.h"
#include "trace/stream_log.h"

/* Like tess_runtime_create, but without an observer (comm/work.h). */
tess_status tess_runtime_join_job(const tess_runtime_options *options, tess_runtime **runtime);
/* Returns a line such as "rank 3 (host b) has no kernels 'amx': all ranks compute with 'avx512_bf16'". Returns "" if
 * all ranks have the best table, or if a table was named. The same on all ranks. */
const char *tess_runtime_kernels_vote(const tess_runtime *runtime);
/* Returns 1 + the number of restarts of the job. */
int64_t tess_runtime_life(const tess_runtime *runtime);
/* Returns the record of a rank's earlier processes and their faults, in the job's memory. */
struct tess_rank_past *tess_runtime_past(const tess_runtime *runtime, int rank);
/* Returns the set of faults that happened to earlier processes of any rank, even of ranks that the job no longer
 * has. */
uint32_t tess_runtime_faults_before(const tess_runtime *runtime);
/* Returns the log for tess_device_set_log. It is this rank's part of the job's memory, where the watchdog reads it. */
tess_device_log *tess_runtime_device_log(const tess_runtime *runtime);

/* Sets the tuning table for later operations between hosts (hosts/choice.h). All ranks must set the same table
 * between the same operations. Takes ownership of `tuning` (NULL: none), and returns the previous table to the
 * caller. */
struct tess_tuning *tess_runtime_set_tuning(tess_runtime *runtime, struct tess_tuning *tuning);

#endif
