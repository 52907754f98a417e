/* Not private: what the library's own engine sets and asks of tess_fsdp besides the public contract (tessera/fsdp.h).
 */
#ifndef TESS_PARALLEL_FSDP_FSDP_ENGINE_H
#define TESS_PARALLEL_FSDP_FSDP_ENGINE_H

#include "base/os/phase_clock.h"
#include "device/stream.h"
#include "job/persist/persist.h"
#include "tessera/fsdp.h"

/* Conversions, additions and norms run on `stream` (borrowed until destroy) instead of a stream of fsdp's own, which
 * has one thread. Call before materialize. The bits do not depend on it. */
void tess_fsdp_set_stream(tess_fsdp *fsdp, tess_stream *stream);

/* The finished gradients of the step whose n_local_micro_batches were summed when a process had come to the end of
 * step_end, and maybe no further: as if this process had. Weights and sums lie in named memory
 * (base/mem/named.h), which must outlive a process. Not collective. */
tess_status tess_fsdp_find_gradients(tess_fsdp *fsdp, int n_local_micro_batches);

/* Gathers, reductions and waits switch `clock` (borrowed until destroy) and back. Call before the first step. A call
 * that fails leaves the clock in the phase that failed: what a step's phases came to is told of steps that went well,
 * and a failed one ends the job. */
void tess_fsdp_set_clock(tess_fsdp *fsdp, tess_phase_clock *clock);

/* The ranks that hold the same master weights and optimizer state as this one, bit for bit; NULL: it is the only one.
 */
tess_team *tess_fsdp_replicas_agree(const tess_fsdp *fsdp);

/* *at: the first element of parameter `index`, of those that this rank writes into the gathered copy, where a copy that
 * is in use holds something else than the master weights round to; -1: none, or there is no such copy. Between steps.
 */
tess_status tess_fsdp_copy_differs(tess_fsdp *fsdp, int index, int64_t *at);

/* A gradient of one rank that held no number. */
typedef struct tess_fsdp_bad_gradient {
    const char *param;       /* lives as long as the fsdp */
    int rank, n_ranks;       /* of the job, the first of those whose gradient held none at this place; how many */
    int micro;               /* their local micro-batch */
    int64_t order;           /* among all reductions, the same on all ranks of a replica */
    int64_t row, column;     /* of the whole parameter */
    int64_t n_bad, n_values; /* of that rank, among the rows of the parameter that this rank sums at a time */
    double value;
} tess_fsdp_bad_gradient;

/* The first of the newest step, among the rows that this rank sums. False: none was seen, or nobody could see it (no
 * peers, peers on other hosts, finite gradients with too large a sum). */
bool tess_fsdp_find_bad_gradient(const tess_fsdp *fsdp, tess_fsdp_bad_gradient *bad);

/* What this rank has moved so far. */
typedef struct tess_fsdp_traffic {
    uint64_t gathered_bytes; /* read and written by it to gather parameters */
    uint64_t reduced_bytes;  /* read and written by it to sum gradients */
    int64_t hidden_ns;       /* that ranks in lockstep would have waited for peers, less what this one did wait */
} tess_fsdp_traffic;

tess_fsdp_traffic tess_fsdp_get_traffic(const tess_fsdp *fsdp);

#endif
