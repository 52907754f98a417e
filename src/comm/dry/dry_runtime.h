/* A dry rank: one rank of a job of which no other rank exists. Its teams have all ranks of the job. Its operations are
 * recorded and complete at once, without moving anything. Its memory is counted, but not there (base/mem/dry_mem.h). So
 * the code that a real rank runs tells what that rank would take and move. */
#ifndef TESS_COMM_DRY_DRY_RUNTIME_H
#define TESS_COMM_DRY_DRY_RUNTIME_H

#include "comm/volume.h"
#include "tessera/runtime.h"

typedef struct tess_dry_options {
    int rank, world;
    int ranks_a_host; /* number of consecutive ranks that share a host, if `hosts` is NULL */
    const int *hosts; /* (world) the host of each rank, from 0; NULL: see ranks_a_host */
    int n_threads;
    const char *kernels; /* name of the kernel table (tess_kernels_select) */
    bool fills;          /* memory is there (tess_mem_dry_fill), so that kernels can be measured on it */
} tess_dry_options;

/* Creates the runtime of a dry rank. Its tess_mem is dry. Destroy it with tess_dry_runtime_destroy.
 *
 * Gathers and all_reduces of at most 1 MiB write a result, so that agreements succeed: a gather repeats this rank's
 * value, and a sum is this rank's own value. No other operation writes one. Teams are split by tess_team_split_by only.
 */
tess_status tess_dry_runtime_create(const tess_dry_options *options, tess_runtime **runtime);
void tess_dry_runtime_destroy(tess_runtime **runtime);

/* Returns what was recorded so far. The caller may reset it. */
tess_volume *tess_dry_runtime_volume(tess_runtime *runtime);

struct tess_mem_peak;
/* Follows the peak of the dry rank's memory (base/mem/dry_mem.h). Its moments are the phases of the rank. */
void tess_dry_runtime_follow_peak(tess_runtime *runtime, struct tess_mem_peak *peak);

struct tess_rehearsal;
/* Also records the operations from now on, one by one (comm/rehearsal/rehearsal.h). NULL: no more. */
void tess_dry_runtime_rehearse(tess_runtime *runtime, struct tess_rehearsal *rehearsal);

struct tess_work_trace;
/* Records the operations from now on, and the waits for them, in `trace` (device/dry/work_trace.h). NULL: no more. */
void tess_dry_runtime_trace(tess_runtime *runtime, struct tess_work_trace *trace);
/* Records that a dry rank reads `bytes` in the memory of the team's other ranks (TESS_TRACE_OTHER in the trace). Other
 * ranks record nothing. */
void tess_dry_runtime_read(tess_team *team, size_t bytes);

#endif
