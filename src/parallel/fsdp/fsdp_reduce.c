/* The canonical sum of a unit's gradients: the tree over ranks, then a binary counter over local micro-batches.
 *
 * Micro-batch i = s * W + r. The reduce-scatter adds over r, the low bits of i. Over s the accumulators work as a
 * binary counter works: level k holds a sum of 2^k micro-batches, and adding one carries for as long as the bits of s
 * are set. So the sum is the pairwise tree over i whatever W is (a power of two). When s is odd the first carry is
 * fused into the reduce-scatter, which adds the old shard last; with replicas it cannot be, as their sum comes first.
 *
 * Replicas are summed in the background as well: over the network, where the shards of a replica share a host. The sum
 * of one unit begins when the next one is sent, at the same place of the sequence of calls on all ranks. */
#include "parallel/fsdp/fsdp_impl.h"

static float *unused_accumulator(const tess_unit *unit)
{
    for (int i = 0; i < unit->fsdp->n_accumulators; i++) {
        bool used = false;
        for (int k = 0; k < TESS_FSDP_LEVELS; k++)
            used = used || unit->level[k] == unit->accumulators[i];
        if (!used)
            return unit->accumulators[i];
    }
    return NULL;
}

/* y += x. Sums of two commute, so this is the tree whichever side is older. */
static tess_status add(tess_unit *unit, float *y, const float *x)
{
    tess_stream *stream = NULL;
    TESS_TRY(tess_fsdp_stream(unit->fsdp, &stream));
    unit->fsdp->traffic.reduced_bytes += 3 * sizeof(float) * unit->accumulator_elements;
    return stream->kernels->add(stream, y, x, y, (int64_t)unit->accumulator_elements, TESS_F32);
}

static tess_status carry(tess_unit *unit)
{
    int k = 0;
    float *sum = unit->incoming;
    if (unit->reduce_fused)
        unit->level[k++] = NULL;
    for (; unit->reduce_micro >> k & 1; k++) {
        TESS_TRY(add(unit, unit->level[k], sum));
        sum = unit->level[k];
        unit->level[k] = NULL;
    }
    unit->level[k] = sum;
    unit->incoming = NULL;
    return TESS_OK;
}

static tess_status widen(tess_stream *stream, const void *gradient, tess_dtype dtype, float *sum, int64_t n,
                         bool accumulate)
{
    void *y = sum;
    const tess_reduction r = {.x = &gradient,
                              .n_inputs = 1,
                              .dtype = dtype,
                              .divisor = 1,
                              .y = &y,
                              .n_outputs = 1,
                              .y_dtype = TESS_F32,
                              .n = n,
                              .accumulate = accumulate};
    return stream->kernels->reduce(stream, &r, NULL);
}

/* Without peers the gradients only have to be added, or widened; on all threads of the stream. */
static tess_status sum_alone(tess_unit *unit)
{
    tess_dtype dtype = unit->fsdp->policy.reduce_dtype;
    tess_stream *stream = NULL;
    TESS_TRY(tess_fsdp_stream(unit->fsdp, &stream));
    for (int i = 0; i < unit->n_params; i++) {
        const tess_fsdp_param *p = &unit->params[i];
        const void *gradient = (const char *)unit->window->data + p->window_offset * tess_dtype_size(dtype);
        if (p->trainable)
            TESS_TRY(widen(stream, gradient, dtype, unit->incoming + p->accumulator_offset, p->rows * p->row,
                           unit->reduce_fused));
    }
    tess_fsdp_window_release(unit);
    return carry(unit);
}

static tess_status send(tess_unit *unit)
{
    tess_fsdp *fsdp = unit->fsdp;
    unit->reduce_number = ++fsdp->n_issued;
    unit->window->reducing = true;
    tess_fsdp_stamp_now(fsdp, unit->reduce_number);
    unit->window->released = ++fsdp->n_windows_released;
    tess_team_label(fsdp->shard_team, unit->label, unit->number);
    tess_status status = tess_reduce_scatter_pieces(fsdp->shard_team, unit->window->data, fsdp->policy.reduce_dtype,
                                                    unit->incoming, unit->reduce_pieces, (size_t)unit->n_trainable,
                                                    unit->reduce_fused, &unit->reduce_work);
    tess_team_label(fsdp->shard_team, NULL, -1);
    return status;
}

/* The shards of this replica are summed; their sum over the replicas begins. */
static tess_status finish_shards(tess_unit *unit)
{
    tess_fsdp *fsdp = unit->fsdp;
    if (unit->reduce_work == NULL)
        return TESS_OK;
    TESS_TRY_CTX(tess_fsdp_wait(fsdp, &unit->reduce_work, unit->reduce_number), "gradients of unit '%s'", unit->name);
    tess_fsdp_bad_gradient_note(unit);
    if (unit->reduce_number > fsdp->n_proven)
        fsdp->n_proven = unit->reduce_number;
    tess_fsdp_window_release(unit);
    if (fsdp->n_replicas == 1)
        return TESS_OK;
    tess_team_label(fsdp->replicate_team, unit->label, unit->number);
    tess_status status = tess_all_reduce(fsdp->replicate_team, unit->incoming, unit->incoming,
                                         unit->accumulator_elements, TESS_F32, TESS_SUM, &unit->replica_work);
    tess_team_label(fsdp->replicate_team, NULL, -1);
    TESS_TRY_CTX(status, "gradients of unit '%s' over the replicas", unit->name);
    return TESS_OK;
}

tess_status tess_fsdp_reduce_flush(tess_fsdp *fsdp)
{
    tess_unit *unit = fsdp->last_reduced;
    fsdp->last_reduced = NULL;
    return unit != NULL ? finish_shards(unit) : TESS_OK;
}

/* With replicas, the unit that was sent before goes on to them. */
static tess_status send_and_flush(tess_unit *unit)
{
    tess_fsdp *fsdp = unit->fsdp;
    TESS_TRY(send(unit));
    if (fsdp->n_replicas == 1)
        return TESS_OK;
    TESS_TRY(tess_fsdp_reduce_flush(fsdp));
    fsdp->last_reduced = unit;
    return TESS_OK;
}

tess_status tess_fsdp_reduce(tess_unit *unit)
{
    tess_fsdp *fsdp = unit->fsdp;
    unit->deferred = false;
    unit->reduce_micro = fsdp->micro;
    unit->reduce_fused = fsdp->n_replicas == 1 && fsdp->micro % 2 == 1;
    unit->incoming = unit->reduce_fused ? unit->level[0] : unused_accumulator(unit);
    size_t touched =
        (size_t)fsdp->n_shards * tess_dtype_size(fsdp->policy.reduce_dtype) + (1 + unit->reduce_fused) * sizeof(float);
    fsdp->traffic.reduced_bytes += unit->accumulator_elements * touched;
    TESS_TRY_CTX(fsdp->alone ? sum_alone(unit) : send_and_flush(unit), "gradients of unit '%s'", unit->name);
    return TESS_OK;
}

tess_status tess_fsdp_reduce_finish(tess_unit *unit)
{
    tess_fsdp *fsdp = unit->fsdp;
    if (unit->reduce_work == NULL && unit->replica_work == NULL)
        return TESS_OK;
    tess_phase phase = tess_phase_switch(fsdp->clock, TESS_PHASE_REDUCE);
    TESS_TRY(finish_shards(unit));
    if (unit->replica_work != NULL)
        TESS_TRY_CTX(tess_work_wait(&unit->replica_work, 0), "gradients of unit '%s' over the replicas", unit->name);
    TESS_TRY(carry(unit));
    tess_phase_switch(fsdp->clock, phase);
    return TESS_OK;
}

bool tess_fsdp_in_place(const tess_unit *unit)
{
    const tess_fsdp *fsdp = unit->fsdp;
    return fsdp->alone && fsdp->policy.reduce_dtype == TESS_F32 && fsdp->micro % 2 == 0;
}

tess_status tess_fsdp_in_place_begin(tess_unit *unit)
{
    TESS_TRY(tess_fsdp_reduce_finish(unit)); /* of the micro-batch before */
    unit->in_place = unused_accumulator(unit);
    return TESS_OK;
}

tess_status tess_fsdp_in_place_end(tess_unit *unit)
{
    unit->reduce_micro = unit->fsdp->micro;
    unit->reduce_fused = false;
    unit->incoming = unit->in_place;
    unit->in_place = NULL;
    return carry(unit);
}

tess_status tess_fsdp_reduce_total(tess_unit *unit)
{
    tess_fsdp *fsdp = unit->fsdp;
    for (int k = 0; k < TESS_FSDP_LEVELS; k++) {
        if (unit->level[k] == NULL)
            continue;
        if (unit->total != NULL)
            TESS_TRY(add(unit, unit->level[k], unit->total));
        unit->total = unit->level[k];
        unit->level[k] = NULL;
    }
    if (!fsdp->replicated)
        return TESS_OK;
    uint64_t number = ++fsdp->n_issued;
    tess_team_label(fsdp->shard_team, unit->label, unit->number);
    tess_status status = tess_all_gather_pieces(fsdp->shard_team, unit->total, TESS_F32, unit->gradient, TESS_F32,
                                                unit->gradient_pieces, (size_t)unit->n_trainable, NULL);
    tess_team_label(fsdp->shard_team, NULL, -1);
    TESS_TRY_CTX(status, "gradients of unit '%s'", unit->name);
    fsdp->n_proven = number;
    return TESS_OK;
}
