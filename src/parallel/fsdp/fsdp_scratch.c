/* Memory for the gradients of a later pass, until they are added to those of the previous passes. Units of one size
 * class use it in turn. Two blocks are needed at the same time if a unit keeps its own (a tied embedding). */
#include "parallel/fsdp/fsdp_impl.h"

tess_status tess_fsdp_scratch_take(tess_unit *unit)
{
    tess_fsdp *fsdp = unit->fsdp;
    tess_fsdp_scratch *s = fsdp->scratch;
    while (s != NULL && (s->unit != NULL || s->size_class != unit->layout.window_class))
        s = s->next;
    if (s == NULL) {
        float *data;
        TESS_TRY(tess_fsdp_alloc(&fsdp->place, TESS_POOL_GRADS,
                                 tess_fsdp_windows_of(fsdp, unit->layout.window_class).largest, "gradients of a pass",
                                 &data));
        tess_status status =
            tess_mem_alloc(fsdp->place.mem, TESS_POOL_MISC, sizeof(*s), "gradients of a pass", (void **)&s);
        if (status != TESS_OK) {
            tess_fsdp_free(&fsdp->place, data);
            return status;
        }
        *s = (tess_fsdp_scratch){.next = fsdp->scratch, .data = data, .size_class = unit->layout.window_class};
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
        tess_fsdp_free(&fsdp->place, s->data);
        tess_mem_free(fsdp->place.mem, s);
    }
}
