/* Faults of the disk while a checkpoint is saved. */
#include <errno.h>

#include "inject/inject_impl.h"

const char *tess_save_point_name(tess_save_point point)
{
    static const char *const names[] = {
#define X(name, text, help) text,
        TESS_SAVE_POINT_LIST(X)
#undef X
    };
    return (unsigned)point < TESS_SAVE_POINTS ? names[point] : "?";
}

/* Counts the call for the fault; true: the fault waits for this one. */
static bool is_met(const tess_faults *faults, tess_fault *f, tess_save_point point)
{
    if (f->point != TESS_FAULT_SAVE || f->save_point != (int)point)
        return false;
    if (f->seen_step != faults->step)
        f->seen = 0;
    f->seen_step = faults->step;
    f->seen++;
    return f->nth == 0 || f->nth == f->seen;
}

/* The fault's outcome: see tess_inject_save. */
static int outcome(const tess_fault *fault)
{
    switch (fault->kind) {
    case TESS_FAULT_NO_SPACE:
        return ENOSPC;
    case TESS_FAULT_DISK_ERROR:
        return EIO;
    case TESS_FAULT_SHORT_WRITE:
        return TESS_INJECT_SHORT;
    default:
        tess_fault_strike(NULL, fault);
        return 0;
    }
}

/* At most one fault is due; all have counted the call. */
static const tess_fault *find_due(tess_faults *faults, tess_save_point point)
{
    const tess_fault *due = NULL;
    for (int i = 0; i < faults->n; i++) {
        tess_fault *f = &faults->fault[i];
        if (is_met(faults, f, point) && due == NULL && tess_fault_is_due(faults, f, TESS_FAULT_SAVE))
            due = f;
    }
    return due;
}

int tess_inject_save(tess_faults *faults, int64_t step, tess_save_point point)
{
    if (faults == NULL)
        return 0;
    faults->step = step;
    const tess_fault *fault = find_due(faults, point);
    return fault != NULL ? outcome(fault) : 0;
}
