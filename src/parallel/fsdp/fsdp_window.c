/* Windows: the memory of a unit's gradients between the engine that writes them and the peers that read them.
 *
 * Units of a size class take turns in two windows: one is written while the other is on its way. A window comes back
 * when its reduction is complete, so it is never rewritten under a reader. A unit that keeps its window open (a tied
 * embedding, through the whole backward pass) makes the class grow by one. Where gradients are reduced at the end of
 * the micro-batch (ZeRO-1) every unit has its own. */
#include "parallel/fsdp/fsdp_impl.h"

static tess_status create_window(tess_unit *unit, tess_fsdp_window **out)
{
    tess_fsdp *fsdp = unit->fsdp;
    size_t elements = unit->window_elements;
    for (int u = 0; !fsdp->defer && u < fsdp->n_units; u++)
        if (fsdp->units[u]->window_class == unit->window_class && fsdp->units[u]->window_elements > elements)
            elements = fsdp->units[u]->window_elements;
    tess_fsdp_window *window = NULL;
    TESS_TRY(tess_mem_alloc(fsdp->mem, TESS_POOL_MISC, sizeof(*window), "window", (void **)&window));
    *window = (tess_fsdp_window){.elements = elements, .size_class = unit->window_class};
    tess_dtype dtype = fsdp->policy.reduce_dtype;
    tess_status status = TESS_OK;
    if (dtype != TESS_F32)
        TESS_GOTO(tess_mem_alloc_array(fsdp->mem, TESS_POOL_COMM, elements, sizeof(float), "float32 gradients",
                                       (void **)&window->staging),
                  no_staging);
    TESS_GOTO(tess_fsdp_window_alloc(fsdp, elements * tess_dtype_size(dtype), &window->data), no_data);
    window->next = fsdp->windows;
    fsdp->windows = window;
    *out = window;
    return TESS_OK;
no_data:
    tess_mem_free(fsdp->mem, window->staging);
no_staging:
    tess_mem_free(fsdp->mem, window);
    return status;
}

float *tess_fsdp_window_floats(const tess_fsdp_window *window)
{
    return window->staging != NULL ? window->staging : window->data;
}

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
        TESS_TRY(create_window(unit, &free_window));
    free_window->unit = unit;
    free_window->reducing = false;
    unit->window = free_window;
    return TESS_OK;
}

void tess_fsdp_window_release(tess_unit *unit)
{
    unit->window->reducing = false;
    if (unit->fsdp->defer)
        return;
    unit->window->unit = NULL;
    unit->window = NULL;
}

void tess_fsdp_windows_free(tess_fsdp *fsdp)
{
    while (fsdp->windows != NULL) {
        tess_fsdp_window *window = fsdp->windows;
        fsdp->windows = window->next;
        tess_fsdp_window_free(fsdp, window->data);
        tess_mem_free(fsdp->mem, window->staging);
        tess_mem_free(fsdp->mem, window);
    }
}
