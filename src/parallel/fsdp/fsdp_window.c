/* Windows: the memory in which the engine writes a unit's gradients and peers read them, and scratch memory for the
 * gradients of a later pass, until they are added to those of the previous passes. fsdp_turns.c decides which unit uses
 * which window. Units of one size class use scratch memory in turn; two blocks are needed at the same time if a unit
 * keeps its own (a tied embedding). */
#include "parallel/fsdp/fsdp_impl.h"
#include "base/mem/scoped.h"

/* Adds memory to a list, in which this rank alone writes and, unless it is scratch memory, peers read. */
static tess_status create(tess_unit *unit, bool is_scratch, size_t elements, tess_fsdp_window **list)
{
    tess_fsdp *fsdp = unit->fsdp;
    const tess_wire_form *form = fsdp->reduce_form;
    const tess_pool pool = is_scratch ? TESS_POOL_GRADS : TESS_POOL_COMM;
    tess_fsdp_window *window = NULL;
    TESS_TRY(TESS_NEW(fsdp->place.mem, 1, "window", &window));
    *window = (tess_fsdp_window){.next = *list, .size_class = unit->layout.window_class};
    tess_status status = TESS_OK;
    if (is_scratch || form->moves != TESS_F32)
        TESS_GOTO(tess_fsdp_alloc(&fsdp->place, pool, elements, "float32 gradients", &window->staging), no_staging);
    if (!is_scratch)
        TESS_GOTO(tess_fsdp_window_alloc(unit->family, form->row_bytes(form, (int64_t)elements), &window->data),
                  no_data);
    *list = window;
    return TESS_OK;
no_data:
    tess_fsdp_free(&fsdp->place, window->staging);
no_staging:
    tess_mem_free(fsdp->place.mem, window);
    return status;
}

tess_status tess_fsdp_window_create(tess_unit *unit, tess_fsdp_window **out)
{
    tess_fsdp_family *family = unit->family;
    size_t elements = tess_fsdp_windows_of(unit->fsdp, unit->layout.window_class).largest;
    if (tess_fsdp_holds_windows(family))
        elements = unit->layout.window_elements;
    TESS_TRY(create(unit, false, elements, &family->windows));
    *out = family->windows;
    return TESS_OK;
}

tess_status tess_fsdp_scratch_take(tess_unit *unit)
{
    tess_fsdp *fsdp = unit->fsdp;
    tess_fsdp_window *s = fsdp->scratch;
    while (s != NULL && (s->unit != NULL || s->size_class != unit->layout.window_class))
        s = s->next;
    if (s == NULL)
        TESS_TRY(create(unit, true, tess_fsdp_windows_of(fsdp, unit->layout.window_class).largest, &fsdp->scratch));
    unit->scratch = s != NULL ? s : fsdp->scratch;
    unit->scratch->unit = unit;
    return TESS_OK;
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

void tess_fsdp_windows_free(tess_fsdp_family *family, tess_fsdp_window **list)
{
    while (*list != NULL) {
        tess_fsdp_window *window = *list;
        *list = window->next;
        if (window->data != NULL)
            tess_fsdp_window_free(family, window->data);
        tess_fsdp_free(&family->fsdp->place, window->staging);
        tess_mem_free(family->fsdp->place.mem, window);
    }
}
