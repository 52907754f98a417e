/* Units of a size class take turns in two windows: one is written while the other is reduced. A window is free again
 * when its reduction is complete, so it is never rewritten while a peer reads it. A unit that keeps its window open
 * (a tied embedding, through the whole backward pass) adds one window to the class. Every unit has its own window if
 * gradients are reduced at the end of the micro-batch (ZeRO-1) or add up over its passes. */
#include "parallel/fsdp/fsdp_impl.h"

static bool may_create(const tess_unit *unit, int n_windows)
{
    return n_windows < 2 && n_windows < tess_fsdp_windows_of(unit->fsdp, unit->layout.window_class).n;
}

tess_status tess_fsdp_window_take(tess_unit *unit)
{
    tess_fsdp_family *family = unit->family;
    TESS_TRY(tess_fsdp_reduce_finish(unit)); /* the reduction of the previous micro-batch */
    if (unit->window != NULL)
        return TESS_OK;
    int n_windows = 0;
    tess_fsdp_window *free_window = NULL, *oldest = NULL;
    for (tess_fsdp_window *w = family->windows; w != NULL && !tess_fsdp_holds_windows(family); w = w->next) {
        if (w->size_class != unit->layout.window_class)
            continue;
        n_windows++;
        if (w->unit == NULL)
            free_window = w;
        else if (w->reducing && (oldest == NULL || w->released < oldest->released))
            oldest = w;
    }
    if (free_window == NULL && oldest != NULL && !may_create(unit, n_windows)) {
        TESS_TRY(tess_fsdp_reduce_finish(oldest->unit));
        free_window = oldest;
    }
    if (free_window == NULL)
        TESS_TRY(tess_fsdp_window_create(unit, &free_window));
    free_window->unit = unit;
    free_window->reducing = false;
    unit->window = free_window;
    return TESS_OK;
}
