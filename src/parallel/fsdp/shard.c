/* Shards: the rows of each parameter that this rank holds, for optimizers, checkpoints and norms. */
#include "parallel/fsdp/fsdp_impl.h"

int tess_fsdp_shards(const tess_fsdp *fsdp)
{
    return fsdp->n_params;
}

tess_status tess_fsdp_shard(tess_fsdp *fsdp, int index, tess_shard *shard)
{
    TESS_CHECK(index >= 0 && index < fsdp->n_params, TESS_E_INVALID, "fsdp: shard %d of %d", index, fsdp->n_params);
    TESS_CHECK(fsdp->state != TESS_FSDP_BUILDING, TESS_E_INVALID, "fsdp: shard %d before materialize", index);
    const tess_unit *unit = fsdp->params[index].unit;
    const tess_fsdp_param *p = &unit->params[fsdp->params[index].index];
    const float *gradient = fsdp->replicated ? unit->gradient : unit->total;
    *shard = (tess_shard){
        .name = p->name,
        .shape = p->shape,
        .trainable = p->trainable,
        .decay = p->decay,
        .row_begin = p->held_begin,
        .n_rows = p->held_rows,
        .master = unit->master + p->master_offset,
        .grad = p->trainable && fsdp->gradients_ready ? (float *)gradient + p->gradient_offset : NULL,
        .primary_begin = p->primary_begin,
        .primary_rows = p->primary_rows,
    };
    if (unit->slot != NULL && unit->slot->updating) {
        size_t own = p->full_offset + (size_t)(p->own_begin * p->row);
        shard->copy = (char *)unit->slot->data + own * tess_dtype_size(fsdp->policy.param_dtype);
        shard->copy_begin = p->own_begin;
        shard->copy_rows = p->own_rows;
    }
    return TESS_OK;
}
