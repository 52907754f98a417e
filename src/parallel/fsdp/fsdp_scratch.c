/* Memory for the gradients of a later pass, until they are added to those of the previous passes. Units of one size
 * class use it in turn. Two blocks are needed at the same time if a unit keeps its own (a tied embedding). */
#include "parallel/fsdp/fsdp_impl.h"

/* Returns the elements of the largest unit that shares scratch memory with `unit`. */
static size_t elements_for(const tess_unit *unit)
{
    size_t elements = 0;
    for (int u = 0; u < unit->fsdp->n_units; u++) {
        const tess_unit *other = unit->fsdp->units[u];
        if (other->window_class == unit->window_class && other->window_elements > elements)
            elements = other->window_elements;
    }
    return elements;
}

tess_status tess_fsdp_scratch_take(tess_unit *unit)
{
    tess_fsdp *fsdp = unit->fsdp;
    tess_fsdp_scratch *s = fsdp->scratch;
    while (s != NULL && (s->unit != NULL || s->size_class != unit->window_class))
        s = s->next;
    if (s == NULL) {
        float *data;
        TESS_TRY(tess_fsdp_alloc(fsdp, TESS_POOL_GRADS, elements_for(unit), "gradients of a pass", &data));
        tess_status status = tess_mem_alloc(fsdp->mem, TESS_POOL_MISC, sizeof(*s), "gradients of a pass", (void **)&s);
        if (status != TESS_OK) {
            tess_fsdp_free(fsdp, data);
            return status;
        }
        *s = (tess_fsdp_scratch){.next = fsdp->scratch, .data = data, .size_class = unit->window_class};
        fsdp->scratch = s;
    }
    s->unit = unit;
    unit->scratch = s;
    return TESS_OK;
}

void tess_fsdp_scratch_free(tess_fsdp *fsdp)
{
    while (fsdp->scratch != NULL) {
        tess_fsdp_scratch *s = fsdp->scratch;
        fsdp->scratch = s->next;
        tess_fsdp_free(fsdp, s->data);
        tess_mem_free(fsdp->mem, s);
    }
}

size_t tess_fsdp_scratch_bytes(const tess_fsdp *fsdp, int open_unit)
{
    size_t bytes = 0;
    for (int u = 0; u < fsdp->n_units && fsdp->n_passes > 1; u++) {
        const tess_unit *unit = fsdp->units[u];
        int before = 0, n = 0; /* units with gradients in the same class */
        for (int k = 0; k < fsdp->n_units; k++) {
            bool alike = fsdp->units[k]->n_trainable > 0 && fsdp->units[k]->window_class == unit->window_class;
            n += alike;
            before += alike && k < u;
        }
        bool by_open = open_unit >= 0 && fsdp->units[open_unit]->window_class == unit->window_class;
        if (unit->n_trainable > 0 && before < (by_open && n > 1 ? 2 : 1))
            bytes += elements_for(unit) * sizeof(float);
    }
    return bytes;
}
