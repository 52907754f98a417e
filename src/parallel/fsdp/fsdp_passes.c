/* Passes: a micro-batch is computed in several parts, one after the other; their gradients add up to one leaf, which is
 * reduced.
 *
 * The first pass writes the memory of the leaf: the unit's window, or an accumulator in place. Each later one writes
 * scratch memory, which is added to the leaf as the unit's backward ends. So a leaf is ((p0 + p1) + p2) + ..., in
 * float32 whatever the dtype of the reduction, and it needs one collective. A unit keeps its window through the whole
 * micro-batch. */
#include "parallel/fsdp/fsdp_impl.h"

tess_status tess_fsdp_gradient_begin(tess_unit *unit)
{
    if (unit->fsdp->step.pass > 0)
        return tess_fsdp_scratch_take(unit);
    if (unit->way->begin != NULL)
        TESS_TRY(unit->way->begin(unit));
    return unit->in_place == NULL ? tess_fsdp_window_take(unit) : TESS_OK;
}

float *tess_fsdp_gradient(const tess_unit *unit, const tess_fsdp_param *p)
{
    if (unit->scratch != NULL)
        return unit->scratch->staging + p->window_offset;
    if (unit->in_place != NULL)
        return tess_fsdp_sum_at(unit, unit->in_place) + p->accumulator_offset;
    return tess_fsdp_window_floats(unit->window) + p->window_offset;
}

tess_status tess_fsdp_gradient_end(tess_unit *unit)
{
    tess_stream *stream = NULL;
    tess_fsdp_window *s = unit->scratch;
    if (s == NULL)
        return TESS_OK;
    TESS_TRY(tess_fsdp_stream(&unit->fsdp->place, &stream));
    if (unit->in_place != NULL) {
        tess_leaf_step sum = {.accumulate = true, .y = unit->in_place};
        TESS_TRY(tess_fsdp_sums_here(unit, &sum, 1));
    }
    unit->scratch = NULL;
    s->unit = NULL;
    for (int i = 0; i < unit->n_params; i++) {
        const tess_fsdp_param *p = &unit->params[i];
        if (!p->trainable)
            continue;
        float *leaf = tess_fsdp_gradient(unit, p);
        TESS_TRY(tess_stream_kernels(stream)->add(
            stream,
            &(tess_add_args){
                .a = leaf, .b = s->staging + p->window_offset, .y = leaf, .n = p->rows * p->row, .dtype = TESS_F32}));
        unit->fsdp->traffic.reduced_bytes += 3 * sizeof(float) * (uint64_t)(p->rows * p->row);
    }
    return TESS_OK;
}
