/* How a runtime comes to have faults. */
#include <stdio.h>

#include "inject/inject_impl.h"

/* What a save meets (save:CALL) is left out, as others may do that. */
static void warn_of_unused(const tess_faults *faults, int rank)
{
    for (int i = 0; i < faults->n; i++) {
        const tess_fault *fault = &faults->fault[i];
        if (fault->happened == 0 && fault->point != TESS_FAULT_SAVE)
            fprintf(stderr, "warning: fault %d never happened on rank %d: %s\n", fault->number, rank, fault->text);
    }
}

static void end(tess_runtime *rt, void *self, bool orderly)
{
    tess_faults *faults = self;
    if (orderly)
        warn_of_unused(faults, tess_runtime_rank(rt));
    tess_faults_destroy(tess_runtime_mem(rt), &faults);
}

tess_status tess_inject_begin(tess_runtime *rt, const tess_fault_spec *spec, int64_t life)
{
    tess_faults *faults;
    TESS_TRY(tess_faults_create(tess_runtime_mem(rt), spec, tess_runtime_rank(rt), life, &faults));
    if (faults == NULL)
        return TESS_OK;
    tess_runtime_observe(rt, &(comm_observer){.self = faults,
                                              .submit = inject_submit,
                                              .phase_over = inject_phase_over,
                                              .phase = inject_phase,
                                              .end = end});
    return TESS_OK;
}
