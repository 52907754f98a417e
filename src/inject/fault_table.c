/* The faults of one rank, and when each is due. */
#include <stdio.h>
#include <string.h>

#include "inject/inject_impl.h"

const char *tess_fault_name(tess_fault_kind kind)
{
    static const char *const names[] = {
#define X(name, text, where, help) text,
        TESS_FAULT_LIST(X)
#undef X
    };
    return (unsigned)kind < TESS_FAULT_KINDS ? names[kind] : "?";
}

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

bool tess_fault_is_due(tess_faults *faults, tess_fault *fault, tess_fault_point point)
{
    bool from_then_on = fault->kind == TESS_FAULT_SLOW && faults->step >= fault->step;
    if (fault->point != point || (fault->times > 0 && fault->happened >= fault->times) ||
        (fault->step >= 0 && fault->step != faults->step && !from_then_on))
        return false;
    fault->happened++;
    return true;
}

tess_faults *tess_inject_faults(const tess_runtime *rt)
{
    return tess_runtime_observer(rt);
}

bool tess_inject_stops(tess_runtime *rt, int64_t step)
{
    tess_faults *faults = tess_inject_faults(rt);
    for (int i = 0; faults != NULL && i < faults->n; i++) {
        tess_fault *fault = &faults->fault[i];
        if (fault->kind == TESS_FAULT_UNEVEN && fault->whole_step && (fault->step < 0 || step >= fault->step)) {
            fault->happened++;
            return true;
        }
    }
    return false;
}

tess_status tess_inject_failure(tess_runtime *rt, const char *what)
{
    tess_faults *faults = tess_inject_faults(rt);
    if (faults == NULL || faults->failures == 0)
        return TESS_OK;
    faults->failures--;
    return TESS_FAIL(TESS_E_IO, "%s: an injected failure", what);
}

int64_t tess_inject_micro_batches(tess_runtime *rt, int64_t step, int64_t n)
{
    tess_faults *faults = tess_inject_faults(rt);
    for (int i = 0; faults != NULL && i < faults->n; i++) {
        tess_fault *fault = &faults->fault[i];
        if (fault->kind == TESS_FAULT_UNEVEN && !fault->whole_step && (fault->step < 0 || step == fault->step)) {
            fault->happened++;
            n -= fault->n;
        }
    }
    return n > 0 ? n : 0;
}
