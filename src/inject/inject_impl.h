/* Internals of the injector. */
#ifndef TESS_INJECT_INJECT_IMPL_H
#define TESS_INJECT_INJECT_IMPL_H

#include "comm/work.h"
#include "inject/inject.h"

struct tess_faults {
    int n, n_idle; /* faults of the rank's present life, and those after them that only the end looks at */
    tess_fault fault[TESS_FAULTS_MAX];
    int64_t step; /* the rank's current one, -1: none yet */

    /* skip, swallow: operations still to be skipped. */
    int64_t skips;
    int64_t swallowed_step; /* all of this step's are skipped; -1: no such step */

    int64_t failures; /* fail: calls that are still to fail */

    /* order: the held operation. */
    bool holds;
    tess_work held; /* a copy of its request */
    void *held_in, *held_out;

    /* slow: the current phase. */
    char phase[TESS_TRACE_PHASE_BYTES];
    int64_t detail;
    double phase_cpu_s; /* CPU time of this thread at the phase's beginning */
};

/* True when the fault shall happen now, at `point` of the rank's current step; then it counts as having happened. */
bool tess_fault_is_due(tess_faults *faults, tess_fault *fault, tess_fault_point point);

/* Counts a matching operation or call of the rank's current step; true: it is the one that the fault waits for. */
bool tess_fault_counts(const tess_faults *faults, tess_fault *fault);

/* Whether an operation (tess_trace_op) can have a fault of this kind: one without a root has no wrong root. */
bool tess_fault_can_hit(tess_fault_kind kind, int op);

/* Carries out a fault of the process. Returns when the rank shall go on. */
void tess_fault_strike(tess_runtime *runtime, const tess_fault *fault);

/* ---- The runtime's observer (comm/work.h) ---- */
tess_status inject_submit(tess_work *work, tess_work **handle);
void inject_phase_over(void *self);
void inject_phase(tess_runtime *runtime, const char *phase, int64_t step, int64_t detail);

#endif
