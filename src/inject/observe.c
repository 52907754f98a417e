/* Connects faults to a runtime. */
#include <stdio.h>
#include <string.h>

#include "inject/inject_impl.h"

tess_status tess_faults_create(tess_mem *mem, const tess_fault_spec *spec, int rank, int64_t life, tess_faults **out)
{
    tess_fault all[TESS_FAULTS_MAX];
    int n = 0, mine = 0;
    *out = NULL;
    TESS_TRY(tess_faults_parse(spec, all, TESS_FAULTS_MAX, &n));
    for (int i = 0; i < n; i++)
        if ((all[i].rank < 0 || all[i].rank == rank) && (all[i].life == 0 || all[i].life == life))
            all[mine++] = all[i];
    if (mine == 0)
        return TESS_OK;
    void *memory;
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(tess_faults), "faults to inject", &memory));
    tess_faults *faults = memory;
    *faults = (tess_faults){.n = mine, .step = -1, .swallowed_step = -1, .detail = -1};
    memcpy(faults->fault, all, (size_t)mine * sizeof(all[0]));
    *out = faults;
    return TESS_OK;
}

void tess_faults_destroy(tess_mem *mem, tess_faults **faults)
{
    if (*faults == NULL)
        return;
    tess_mem_free(mem, (*faults)->held_in);
    tess_mem_free(mem, (*faults)->held_out);
    tess_mem_free(mem, *faults);
    *faults = NULL;
}

static void end(tess_runtime *rt, void *self, bool orderly)
{
    tess_faults *faults = self;
    for (int i = 0; orderly && i < faults->n; i++) {
        const tess_fault *fault = &faults->fault[i];
        if (fault->happened == 0 && fault->point != TESS_FAULT_SAVE) /* another process may carry those out */
            fprintf(stderr, "warning: fault %d never happened on rank %d: %s\n", fault->number, tess_runtime_rank(rt),
                    fault->text);
    }
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
