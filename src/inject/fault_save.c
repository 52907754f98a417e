/* Injects disk faults while a checkpoint is saved. */
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

int tess_inject_save(tess_faults *faults, int64_t step, tess_save_point point)
{
    if (faults == NULL)
        return 0;
    faults->step = step;
    /* only one fault can be due; every fault counts the call */
    const tess_fault *due = NULL;
    for (int i = 0; i < faults->n; i++) {
        tess_fault *f = &faults->fault[i];
        bool met = f->point == TESS_FAULT_SAVE && f->save_point == (int)point && tess_fault_counts(faults, f);
        if (met && due == NULL && tess_fault_is_due(faults, f, TESS_FAULT_SAVE))
            due = f;
    }
    if (due == NULL)
        return 0;
    switch (due->kind) {
    case TESS_FAULT_NO_SPACE:
        return ENOSPC;
    case TESS_FAULT_DISK_ERROR:
        return EIO;
    case TESS_FAULT_SHORT_WRITE:
        return TESS_INJECT_SHORT;
    default:
        tess_fault_strike(NULL, due);
        return 0;
    }
}
