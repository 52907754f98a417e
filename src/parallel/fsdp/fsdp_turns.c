/* Units of a size class take turns in two windows: one is written while the other is on its way. A window comes back
 * when its reduction is complete, so it is never rewritten under a reader. A unit that keeps its window open (a tied
 * embedding, through the whole backward pass) makes the class grow by one. Where gradients are reduced at the end of
 * the micro-batch (ZeRO-1) every unit has its own. */
#include "parallel/fsdp/fsdp_impl.h"

static bool may_create(const tess_unit *unit, int n_windows)
{
    int n_units = 0;
    for (int u = 0; u < unit->fsdp->n_units; u++)
        n_units += unit->fsdp->units[u]->n_trainable > 0 && unit->fsdp->units[u]->window_class == unit->window_class;
    return n_windows < 2 && n_windows < n_units;
}

tess_status tess_fsdp_window_take(tess_unit *unit)
{
    tess_fsdp *fsdp = unit->fsdp;
    TESS_TRY(tess_fsdp_reduce_finish(unit)); /* of the micro-batch before */
    if (unit->window != NULL)
        return TESS_OK;
    int n_windows = 0;
    tess_fsdp_window *free_window = NULL, *oldest = NULL;
    for (tess_fsdp_window *w = fsdp->windows; w != NULL && !fsdp->defer; w = w->next) {
        if (w->size_class != unit->window_class)
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
