/* Windows: the memory in which the engine writes a unit's gradients and peers read them. fsdp_turns.c decides which
 * unit uses which window. */
#include "parallel/fsdp/fsdp_impl.h"

tess_status tess_fsdp_window_create(tess_unit *unit, tess_fsdp_window **out)
{
    tess_fsdp_family *family = unit->family;
    tess_fsdp *fsdp = unit->fsdp;
    size_t elements = tess_fsdp_holds_windows(family) ? unit->layout.window_elements
                                                      : tess_fsdp_windows_of(fsdp, unit->layout.window_class).largest;
    tess_fsdp_window *window = NULL;
    TESS_TRY(tess_mem_alloc(fsdp->place.mem, TESS_POOL_MISC, sizeof(*window), "window", (void **)&window));
    *window = (tess_fsdp_window){.elements = elements, .size_class = unit->layout.window_class};
    const tess_wire_form *form = fsdp->reduce_form;
    tess_status status = TESS_OK;
    if (form->moves != TESS_F32)
        TESS_GOTO(tess_fsdp_alloc(&fsdp->place, TESS_POOL_COMM, elements, "float32 gradients", &window->staging),
                  no_staging);
    TESS_GOTO(tess_fsdp_window_alloc(family, form->row_bytes(form, (int64_t)elements), &window->data), no_data);
    window->next = family->windows;
    family->windows = window;
    *out = window;
    return TESS_OK;
no_data:
    tess_fsdp_free(&fsdp->place, window->staging);
no_staging:
    tess_mem_free(fsdp->place.mem, window);
    return status;
}

float *tess_fsdp_window_floats(const tess_fsdp_window *window)
{
    return window->staging != NULL ? window->staging : window->data;
}

void tess_fsdp_window_release(tess_unit *unit)
{
    unit->window->reducing = false;
    if (tess_fsdp_holds_windows(unit->family))
        return;
    unit->window->unit = NULL;
    unit->window = NULL;
}

void tess_fsdp_windows_free(tess_fsdp_family *family)
{
    while (family->windows != NULL) {
        tess_fsdp_window *window = family->windows;
        family->windows = window->next;
        tess_fsdp_window_free(family, window->data);
        tess_fsdp_free(&family->fsdp->place, window->staging);
        tess_mem_free(family->fsdp->place.mem, window);
    }
}
