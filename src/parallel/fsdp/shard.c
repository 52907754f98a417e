/* Shards: the box of each parameter that this rank holds, for optimizers, checkpoints and norms. */
#include "optim/optim_home.h"
#include "parallel/fsdp/fsdp_impl.h"
#include "parallel/fsdp/fsdp_values.h"
#include "base/mem/scoped.h"

int tess_fsdp_shards(const tess_fsdp *fsdp)
{
    return fsdp->n_params;
}

tess_status tess_fsdp_shard_in_place(const tess_fsdp *fsdp, int index, tess_shard *shard)
{
    TESS_CHECK(index >= 0 && index < fsdp->n_params, TESS_E_INVALID, "fsdp: shard %d of %d", index, fsdp->n_params);
    TESS_CHECK(fsdp->state != TESS_FSDP_BUILDING, TESS_E_INVALID, "fsdp: shard %d before materialize", index);
    const tess_unit *unit = fsdp->params[index].unit;
    const tess_fsdp_param *p = tess_fsdp_param_at(fsdp, index);
    const float *gradient = tess_fsdp_gathers_gradient(unit->family) ? unit->gradient : unit->total;
    *shard = (tess_shard){
        .name = p->name,
        .shape = p->shape,
        .trainable = p->trainable,
        .decay = p->decay,
        .hidden = p->hidden,
        .box = p->held,
        .master = p->narrow ? NULL : unit->master + p->master_offset,
        .grad = p->trainable && fsdp->gradients_ready ? (float *)gradient + p->gradient_offset : NULL,
        .primary = p->primary,
    };
    if (unit->slot != NULL && unit->slot->updating) {
        size_t before_own = (size_t)(p->own.begin[0] - p->part.begin[0]);
        shard->copy = (char *)unit->slot->data + p->full_at + before_own * tess_fsdp_row_bytes(p);
        shard->copy_box = p->own;
    }
    return TESS_OK;
}

tess_status tess_fsdp_shard(tess_fsdp *fsdp, int index, tess_shard *shard)
{
    TESS_TRY(tess_fsdp_shard_in_place(fsdp, index, shard));
    if (fsdp->place.device == NULL)
        return TESS_OK;
    TESS_TRY(tess_home_refresh(fsdp->home));
    const tess_unit *unit = fsdp->params[index].unit;
    const tess_fsdp_param *p = tess_fsdp_param_at(fsdp, index);
    shard->master = tess_fsdp_host_copy(fsdp, unit->master) + p->master_offset;
    if (shard->grad != NULL && fsdp->gradients_seen)
        shard->grad = tess_fsdp_host_copy(fsdp, shard->grad - p->gradient_offset) + p->gradient_offset;
    return TESS_OK;
}

static tess_status write_rows(tess_unit *unit, const tess_fsdp_param *p, const tess_shard *shard, const float *rows)
{
    tess_stream *stream;
    float *master = unit->master + p->master_offset;
    TESS_TRY(tess_fsdp_stream(&unit->fsdp->place, &stream));
    TESS_TRY(tess_upload(stream, master, rows, (size_t)tess_shard_count(shard) * sizeof(*rows)));
    if (shard->copy == NULL)
        return TESS_OK;
    const int64_t before = (shard->copy_box.begin[0] - shard->box.begin[0]) * p->row;
    return tess_fsdp_convert_rows(&unit->fsdp->place, p, master + before, shard->copy_box.size[0], shard->copy);
}

tess_status tess_fsdp_write_values(tess_fsdp *fsdp, int index, const float *values)
{
    tess_shard shard;
    TESS_TRY(tess_fsdp_shard_in_place(fsdp, index, &shard));
    tess_unit *unit = fsdp->params[index].unit;
    const tess_fsdp_param *p = tess_fsdp_param_at(fsdp, index);
    TESS_CHECK(!p->narrow, TESS_E_INTERNAL, "fsdp: parameter '%s' is narrow, and has no master weights", p->name);
    tess_fsdp_master_fetch(unit, TESS_PAGE_UPDATE);
    TESS_TRY(tess_fsdp_master_wait(unit, TESS_PAGE_UPDATE));
    const tess_status status = write_rows(unit, p, &shard, values + shard.box.begin[0] * p->row);
    tess_fsdp_master_release(unit);
    unit->codes_fresh = false;
    return status;
}

int64_t tess_shard_row(const tess_shard *shard)
{
    int64_t row = 1;
    for (int d = 1; d < shard->shape.n_dims; d++)
        row *= shard->box.size[d];
    return row;
}

int64_t tess_shard_count(const tess_shard *shard)
{
    return shard->box.size[0] * tess_shard_row(shard);
}

static tess_span span_of(const tess_shard *shard)
{
    return (tess_span){.name = shard->name,
                       .n = tess_shard_count(shard),
                       .decay = shard->decay,
                       .hidden = shard->hidden,
                       .shape = tess_shape_atleast_1d(&shard->shape),
                       .box = shard->box,
                       .param = shard->trainable ? shard->master : NULL,
                       .grad = shard->grad};
}

tess_status tess_fsdp_spans(tess_fsdp *fsdp, const tess_span **spans)
{
    if (fsdp->spans == NULL)
        TESS_TRY(TESS_PART(fsdp, fsdp->n_params, "spans", &fsdp->spans));
    for (int i = 0; i < fsdp->n_params; i++) {
        tess_shard shard;
        TESS_TRY(tess_fsdp_shard_in_place(fsdp, i, &shard));
        int64_t row = tess_shard_row(&shard);
        tess_span *span = &fsdp->spans[i];
        *span = span_of(&shard);
        if (shard.copy == NULL)
            continue;
        span->copy = shard.copy;
        span->copy_begin = (shard.copy_box.begin[0] - shard.box.begin[0]) * row;
        span->copy_n = shard.copy_box.size[0] * row;
        span->copy_dtype = fsdp->policy.param_dtype;
    }
    *spans = fsdp->spans;
    return TESS_OK;
}

tess_status tess_fsdp_optimizer_create(tess_fsdp *fsdp, const tess_optimizer_options *options,
                                       tess_optimizer **optimizer)
{
    const tess_span *spans;
    tess_stream *stream;
    *optimizer = NULL;
    TESS_TRY(tess_fsdp_spans(fsdp, &spans));
    TESS_TRY(tess_fsdp_stream(&fsdp->place, &stream));
    tess_optimizer_place place = {.stream = stream, .owner = fsdp};
    TESS_TRY(tess_fsdp_exchange_matrices(fsdp, options, &place.exchange));
    return tess_optimizer_create_home(fsdp->home, fsdp->place.mem, spans, fsdp->n_params, options, &place, optimizer);
}

tess_status tess_fsdp_optimizer_step(tess_fsdp *fsdp, tess_optimizer *optimizer, int64_t step, float lr,
                                     float grad_scale)
{
    const tess_span *spans;
    TESS_CHECK(
        tess_optimizer_owner(optimizer) == fsdp, TESS_E_INVALID,
        "tess_fsdp_optimizer_step: the optimizer was not made for this fsdp: make one with tess_fsdp_optimizer_create");
    TESS_TRY(tess_fsdp_update_begin(fsdp));
    TESS_TRY(tess_fsdp_spans(fsdp, &spans));
    TESS_TRY(tess_optimizer_step(optimizer, spans, step, lr, grad_scale));
    return tess_fsdp_update_end(fsdp);
}
