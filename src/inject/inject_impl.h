/* Internal to inject: the faults of a rank, and the functions that decide and perform them. */
#ifndef TESS_INJECT_INJECT_IMPL_H
#define TESS_INJECT_INJECT_IMPL_H

#include "comm/work.h"
#include "inject/inject.h"

struct tess_faults {
    /* n: faults of the rank's present life; n_idle: faults after them, which are only checked at the end */
    int n, n_idle;
    tess_fault fault[TESS_FAULTS_MAX];
    int64_t step; /* the rank's current step; -1: none yet */

    /* Kinds skip and swallow: operations that are still to be skipped. */
    int64_t skips;
    int64_t swallowed_step; /* step whose operations are all skipped; -1: none */

    int64_t failures; /* kind fail: calls that are still to fail */

    /* Kind order: the operation that is held back. */
    bool holds;
    tess_work held; /* copy of its request */
    void *held_in, *held_out;

    /* Kind slow: the current phase. */
    char phase[TESS_TRACE_PHASE_BYTES];
    int64_t detail;
    double phase_cpu_s; /* CPU time of this thread when the phase began */
};

/* Whether the fault must happen now, at `point` of the rank's current step. If so, counts it as having happened. */
bool tess_fault_is_due(tess_faults *faults, tess_fault *fault, tess_fault_point point);

/* Counts a matching operation or call of the rank's current step. Returns whether it is the one that the fault waits
 * for. */
bool tess_fault_counts(const tess_faults *faults, tess_fault *fault);

/* Whether an operation (tess_trace_op) can have a fault of this kind. An operation without a root, for example, has
 * no wrong root. */
bool tess_fault_can_hit(tess_fault_kind kind, int op);

/* Performs a fault of the process. Returns if the rank continues. */
void tess_fault_strike(tess_runtime *runtime, const tess_fault *fault);

/* ---- Observer of the runtime (comm/work.h) ---- */
tess_status inject_submit(tess_work *work, tess_work **handle);
void inject_phase_over(void *self);
void inject_phase(tess_runtime *runtime, const char *phase, int64_t step, int64_t detail);

#endif
