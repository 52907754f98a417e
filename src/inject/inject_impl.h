/* Inside of the injector. */
#ifndef TESS_INJECT_INJECT_IMPL_H
#define TESS_INJECT_INJECT_IMPL_H

#include "comm/work.h"
#include "inject/inject.h"

struct tess_faults {
    int n;
    tess_fault fault[TESS_FAULTS_MAX];
    int64_t step; /* that the rank is in, -1: none yet */

    /* skip, swallow: operations that are still to be left out. */
    int64_t skips;
    int64_t swallowed_step; /* none of this step's is made; -1: no such step */

    int64_t failures; /* fail: of what is tried next */

    /* order: the operation that is held back. */
    bool holds;
    tess_work held; /* its request: a copy */
    void *held_in, *held_out;

    /* slow: the phase under way. */
    char phase[TESS_TRACE_PHASE_BYTES];
    int64_t detail;
    double phase_cpu_s; /* this thread's, at its beginning */
};

/* True when it is to happen now, at `point` of the step that the rank is in; counted as having happened. */
bool tess_fault_is_due(tess_faults *faults, tess_fault *fault, tess_fault_point point);

/* Whether an operation (tess_trace_op) can have a fault of this kind: one without a root has no wrong root. */
bool tess_fault_can_hit(tess_fault_kind kind, int op);

/* Kinds that happen to the process. Returns when the rank is to go on. */
void tess_fault_strike(tess_runtime *runtime, const tess_fault *fault);

/* ---- What the runtime's observer does (comm/work.h) ---- */
tess_status inject_submit(tess_work *work, tess_work **handle);
void inject_phase_over(void *self);
void inject_phase(tess_runtime *runtime, const char *phase, int64_t step, int64_t detail);

#endif
