/* Windows: the memory in which the engine writes a unit's gradients and peers read them. fsdp_turns.c decides which
 * unit uses which window. */
#include "parallel/fsdp/fsdp_impl.h"

static size_t elements_for(const tess_unit *unit)
{
    const tess_fsdp *fsdp = unit->fsdp;
    size_t elements = unit->window_elements;
    for (int u = 0; !fsdp->hold && u < fsdp->n_units; u++)
        if (fsdp->units[u]->window_class == unit->window_class && fsdp->units[u]->window_elements > elements)
            elements = fsdp->units[u]->window_elements;
    return elements;
}

tess_status tess_fsdp_window_create(tess_unit *unit, tess_fsdp_window **out)
{
    tess_fsdp *fsdp = unit->fsdp;
    size_t elements = elements_for(unit);
    tess_fsdp_window *window = NULL;
    TESS_TRY(tess_mem_alloc(fsdp->mem, TESS_POOL_MISC, sizeof(*window), "window", (void **)&window));
    *window = (tess_fsdp_window){.elements = elements, .size_class = unit->window_class};
    tess_dtype dtype = fsdp->policy.reduce_dtype;
    tess_status status = TESS_OK;
    if (dtype != TESS_F32)
        TESS_GOTO(tess_fsdp_alloc(fsdp, TESS_POOL_COMM, elements, "float32 gradients", &window->staging), no_staging);
    TESS_GOTO(tess_fsdp_window_alloc(fsdp, elements * tess_dtype_size(dtype), &window->data), no_data);
    window->next = fsdp->windows;
    fsdp->windows = window;
    *out = window;
    return TESS_OK;
no_data:
    tess_fsdp_free(fsdp, window->staging);
no_staging:
    tess_mem_free(fsdp->mem, window);
    return status;
}

float *tess_fsdp_window_floats(const tess_fsdp_window *window)
{
    return window->staging != NULL ? window->staging : window->data;
}

void tess_fsdp_window_release(tess_unit *unit)
{
    unit->window->reducing = false;
    if (unit->fsdp->hold)
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
        tess_fsdp_free(fsdp, window->staging);
        tess_mem_free(fsdp->mem, window);
    }
}
