/* Units of a size class take turns in two windows: one is written while the other is reduced. A window is free again
 * when its reduction is complete, so it is never rewritten while a peer reads it. A unit that keeps its window open
 * (a tied embedding, through the whole backward pass) adds one window to the class. Every unit has its own window if
 * gradients are reduced at the end of the micro-batch (ZeRO-1) or add up over its passes. */
#include "parallel/fsdp/fsdp_impl.h"

/* Counts the units with gradients, among the first n, that share windows with `unit`. */
static int units_of(const tess_unit *unit, int n)
{
    int n_units = 0;
    for (int u = 0; u < n; u++)
        n_units += unit->fsdp->units[u]->n_trainable > 0 && unit->fsdp->units[u]->window_class == unit->window_class;
    return n_units;
}

static bool may_create(const tess_unit *unit, int n_windows)
{
    return n_windows < 2 && n_windows < units_of(unit, unit->fsdp->n_units);
}

/* Whether the backward of a unit directly follows that of another unit of its class, within a micro-batch or from
 * one to the next. */
static bool has_neighbour(const tess_unit *unit, int n_micro)
{
    const tess_fsdp *fsdp = unit->fsdp;
    tess_unit *const *u = fsdp->units;
    int n = fsdp->n_units;
    for (int i = 1; i < n; i++)
        if (u[i]->window_class == unit->window_class && u[i - 1]->window_class == unit->window_class)
            return true;
    return n_micro > 1 && u[0]->window_class == unit->window_class && u[n - 1]->window_class == unit->window_class;
}

size_t tess_fsdp_windows_bytes(const tess_fsdp *fsdp, int64_t n_micro_batches, int open_unit)
{
    const tess_shares shares = tess_fsdp_batches(fsdp);
    const int n_micro = (int)tess_shares_rounds(&shares, n_micro_batches);
    size_t bytes = 0, element = tess_dtype_size(fsdp->policy.reduce_dtype);
    element += fsdp->policy.reduce_dtype != TESS_F32 ? sizeof(float) : 0; /* the engine writes float32 */
    bool none = fsdp->alone && fsdp->policy.reduce_dtype == TESS_F32 && n_micro < 2;
    /* One window is enough if a reduction is complete when its call returns, as it is when replicas exchange leaves. */
    bool all_exchange = fsdp->n_replicas > 1 && (fsdp->portion > 1 || n_micro_batches < shares.total);
    bool all_wait = fsdp->alone || all_exchange;
    for (int u = 0; u < fsdp->n_units && !none; u++) {
        const tess_unit *unit = fsdp->units[u];
        /* Replicas complete a unit's reduction before the second unit after it needs a window. */
        bool waits = all_wait || (fsdp->n_replicas > 1 && !has_neighbour(unit, n_micro));
        bool by_open = open_unit >= 0 && fsdp->units[open_unit]->window_class == unit->window_class;
        if (unit->n_trainable > 0 && (fsdp->hold || units_of(unit, u) < (waits && !by_open ? 1 : 2)))
            bytes += tess_fsdp_window_elements(unit) * element;
    }
    return bytes;
}

tess_status tess_fsdp_window_take(tess_unit *unit)
{
    tess_fsdp *fsdp = unit->fsdp;
    TESS_TRY(tess_fsdp_reduce_finish(unit)); /* the reduction of the previous micro-batch */
    if (unit->window != NULL)
        return TESS_OK;
    int n_windows = 0;
    tess_fsdp_window *free_window = NULL, *oldest = NULL;
    for (tess_fsdp_window *w = fsdp->windows; w != NULL && !fsdp->hold; w = w->next) {
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
