/* Keeps the faults of one rank, and decides when each is due. */

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

bool tess_fault_is_due(tess_faults *faults, tess_fault *fault, tess_fault_point point)
{
    bool from_then_on = fault->kind == TESS_FAULT_SLOW && faults->step >= fault->step;
    if (fault->point != point || (fault->times > 0 && *fault->happened >= fault->times) ||
        (fault->step >= 0 && fault->step != faults->step && !from_then_on))
        return false;
    (*fault->happened)++;
    return true;
}

bool tess_fault_counts(const tess_faults *faults, tess_fault *fault)
{
    if (fault->seen_step != faults->step)
        fault->seen = 0;
    fault->seen_step = faults->step;
    fault->seen++;
    return fault->nth == 0 || fault->nth == fault->seen;
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
            (*fault->happened)++;
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
            (*fault->happened)++;
            n -= fault->n * tess_team_size(tess_runtime_team(rt));
        }
    }
    return n > 0 ? n : 0;
}
