/* The canonical sum of a unit's gradients: micro-batch i = s * W + r is leaf i of a binary counter (comm/leaf_sum.h).
 *
 * The reduce-scatter of local step s gives the owner of a shard the leaves of all W ranks at the same time. The owner
 * adds them as a block. If W is a power of two, the block is one subtree, and it is added to the older sum last when s
 * is odd. So the sum is the pairwise tree over i, whatever W is. The remaining carries run on all threads of the
 * stream.
 *
 * With replicas a leaf of the counter is the sum over all ranks: first over the shards, then in the background over the
 * replicas, which a network connects. The sum of one unit over the replicas begins when the next unit is sent, which is
 * the same place in the sequence of calls on all ranks. Sums that are no subtrees are in fsdp_exchange.c. */
#include "parallel/fsdp/fsdp_impl.h"

/* A sum of two values commutes, so y += x gives the tree's bits whichever side is older. */
static tess_status add(tess_unit *unit, const tess_leaf_step *step)
{
    tess_stream *stream = NULL;
    TESS_TRY(tess_fsdp_stream(&unit->fsdp->place, &stream));
    unit->fsdp->traffic.reduced_bytes += 3 * sizeof(float) * unit->accumulator_elements;
    return tess_stream_kernels(stream)->add(
        stream,
        &(tess_add_args){
            .a = step->y, .b = step->x, .y = step->y, .n = (int64_t)unit->accumulator_elements, .dtype = TESS_F32});
}

static tess_status add_rest(tess_unit *unit)
{
    TESS_TRY(tess_fsdp_sums_here(unit, unit->steps + unit->n_sent, unit->n_steps - unit->n_sent));
    for (int i = unit->n_sent; i < unit->n_steps; i++)
        TESS_TRY(add(unit, &unit->steps[i]));
    unit->n_steps = unit->n_sent = 0;
    return TESS_OK;
}

/* Enters the micro-batch's leaves in the counter. After the last step with leaves, add_rest adds what remains. */
static void push(tess_unit *unit)
{
    tess_leaf_push(&unit->counter, tess_fsdp_leaves_of(unit->fsdp, unit->reduce_micro), unit->steps, &unit->n_steps);
    unit->n_sent = unit->n_steps;
    while (unit->steps[unit->n_sent - 1].n == 0)
        unit->n_sent--;
}

static void count_traffic(const tess_unit *unit, const tess_leaf_step *steps, int n_steps)
{
    tess_fsdp *fsdp = unit->fsdp;
    for (int i = 0; i < n_steps; i++) {
        size_t read = steps[i].n > 0 ? (size_t)steps[i].n * tess_dtype_size(fsdp->reduce_form->moves) : sizeof(float);
        fsdp->traffic.reduced_bytes +=
            unit->accumulator_elements * (read + (size_t)(1 + steps[i].accumulate) * sizeof(float));
    }
}

/* A rank without peers only adds or widens the gradients, on all threads of the stream. */
static tess_status sum_alone(tess_unit *unit)
{
    const tess_wire_form *form = unit->fsdp->reduce_form;
    tess_stream *stream = NULL;
    TESS_TRY(tess_fsdp_stream(&unit->fsdp->place, &stream));
    push(unit);
    TESS_TRY(tess_fsdp_sums_here(unit, unit->steps, 1));
    count_traffic(unit, unit->steps, 1);
    for (int i = 0; i < unit->n_params; i++) {
        const tess_fsdp_param *p = &unit->params[i];
        const void *gradient = (const char *)unit->window->data + form->row_bytes(form, (int64_t)p->window_offset);
        if (p->trainable)
            TESS_TRY(form->sum(form, stream, gradient, p->rows * p->row, unit->steps[0].accumulate,
                               unit->steps[0].y + p->accumulator_offset));
    }
    tess_fsdp_window_release(unit);
    TESS_TRY(add_rest(unit));
    tess_fsdp_sums_release(unit);
    return TESS_OK;
}

static tess_status send(tess_unit *unit, const tess_leaf_step *steps, int n_steps)
{
    tess_fsdp_family *family = unit->family;
    tess_fsdp *fsdp = unit->fsdp;
    unit->reduce_number = ++family->sequence.issued;
    unit->window->reducing = true;
    tess_fsdp_stamp_now(family, unit->reduce_number);
    unit->window->released = ++family->n_windows_released;
    count_traffic(unit, steps, n_steps);
    tess_team_label(family->teams.shard_team, unit->label, unit->number);
    tess_status status =
        tess_reduce_scatter_leaves(family->teams.shard_team, unit->window->data, fsdp->reduce_form->moves, steps,
                                   n_steps, unit->reduce_pieces, (size_t)unit->n_trainable, &unit->reduce_work);
    tess_team_label(family->teams.shard_team, NULL, -1);
    return status;
}

static tess_status wait_for_shards(tess_unit *unit)
{
    tess_fsdp_family *family = unit->family;
    TESS_TRY_CTX(tess_fsdp_wait(family, &unit->reduce_work, unit->reduce_number), "gradients of unit '%s'", unit->name);
    tess_fsdp_bad_gradient_note(unit);
    if (unit->reduce_number > family->sequence.proven)
        family->sequence.proven = unit->reduce_number;
    tess_fsdp_window_release(unit);
    return TESS_OK;
}

/* Called when the sum over this replica's shards is complete: begins the sum over the replicas. */
static tess_status finish_shards(tess_unit *unit)
{
    const tess_fsdp_family *family = unit->family;
    if (unit->reduce_work == NULL)
        return TESS_OK;
    TESS_TRY(wait_for_shards(unit));
    if (unit->incoming == NULL)
        return TESS_OK;
    tess_team_label(family->teams.replicate_team, unit->label, unit->number);
    tess_status status = tess_all_reduce(family->teams.replicate_team, unit->incoming, unit->incoming,
                                         unit->accumulator_elements, TESS_F32, TESS_SUM, &unit->replica_work);
    tess_team_label(family->teams.replicate_team, NULL, -1);
    TESS_TRY_CTX(status, "gradients of unit '%s' over the replicas", unit->name);
    return TESS_OK;
}

tess_status tess_fsdp_reduce_flush(tess_fsdp *fsdp)
{
    tess_unit *unit = fsdp->last_reduced;
    fsdp->last_reduced = NULL;
    return unit != NULL ? finish_shards(unit) : TESS_OK;
}

/* Begins the sum over the replicas for the unit that was sent before. */
static tess_status send_to_replicas(tess_unit *unit)
{
    tess_fsdp_family *family = unit->family;
    tess_fsdp *fsdp = unit->fsdp;
    unit->incoming = tess_leaf_unused(&unit->counter);
    const tess_leaf_step sum = {.n = family->teams.n_shards, .y = unit->incoming};
    TESS_TRY(tess_fsdp_sums_here(unit, &sum, 1));
    TESS_TRY(send(unit, &sum, 1));
    TESS_TRY(tess_fsdp_reduce_flush(fsdp));
    fsdp->last_reduced = unit;
    return TESS_OK;
}

static tess_status exchange(tess_unit *unit)
{
    int n_steps;
    tess_stream *stream = NULL;
    const tess_leaf_step *steps = tess_fsdp_exchange_steps(unit->family, unit->reduce_micro, &n_steps);
    TESS_TRY(tess_fsdp_reduce_flush(unit->fsdp));
    TESS_TRY(send(unit, steps, n_steps));
    TESS_TRY(wait_for_shards(unit));
    TESS_TRY(tess_fsdp_stream(&unit->fsdp->place, &stream));
    return tess_fsdp_exchange_add(unit, stream);
}

static tess_status reduce(tess_unit *unit)
{
    const tess_fsdp_family *family = unit->family;
    if (family->facts.alone)
        return sum_alone(unit);
    if (tess_fsdp_exchanges(family, unit->reduce_micro))
        return exchange(unit);
    if (family->teams.n_replicas > 1)
        return send_to_replicas(unit);
    push(unit);
    TESS_TRY(tess_fsdp_sums_here(unit, unit->steps, unit->n_sent));
    return send(unit, unit->steps, unit->n_sent);
}

tess_status tess_fsdp_reduce(tess_unit *unit)
{
    unit->deferred = false;
    unit->reduce_micro = unit->micro;
    TESS_TRY_CTX(reduce(unit), "gradients of unit '%s'", unit->name);
    return TESS_OK;
}

tess_status tess_fsdp_reduce_finish(tess_unit *unit)
{
    tess_fsdp *fsdp = unit->fsdp;
    if (unit->reduce_work == NULL && unit->replica_work == NULL)
        return TESS_OK;
    tess_phase phase = tess_phase_switch(fsdp->clock, TESS_PHASE_REDUCE);
    TESS_TRY(finish_shards(unit));
    if (unit->replica_work != NULL) {
        TESS_TRY_CTX(tess_work_wait(&unit->replica_work, 0), "gradients of unit '%s' over the replicas", unit->name);
        tess_leaf_place(&unit->counter, unit->incoming, unit->steps, &unit->n_steps);
        unit->incoming = NULL;
    }
    TESS_TRY(add_rest(unit));
    tess_fsdp_sums_release(unit);
    tess_phase_switch(fsdp->clock, phase);
    return TESS_OK;
}

bool tess_fsdp_in_place(const tess_unit *unit)
{
    return unit->family->facts.alone && unit->fsdp->reduce_form->moves == TESS_F32 && unit->micro % 2 == 0;
}

tess_status tess_fsdp_in_place_begin(tess_unit *unit)
{
    TESS_TRY(tess_fsdp_reduce_finish(unit)); /* the reduction of the previous micro-batch */
    unit->in_place = tess_leaf_unused(&unit->counter);
    const tess_leaf_step sum = {.y = unit->in_place};
    return tess_fsdp_sums_here(unit, &sum, 1);
}

tess_status tess_fsdp_in_place_end(tess_unit *unit)
{
    unit->reduce_micro = unit->micro;
    tess_leaf_place(&unit->counter, unit->in_place, unit->steps, &unit->n_steps);
    unit->in_place = NULL;
    TESS_TRY(add_rest(unit));
    tess_fsdp_sums_release(unit);
    return TESS_OK;
}

static tess_status gather_gradient(tess_unit *unit)
{
    tess_fsdp_family *family = unit->family;
    const tess_leaf_step total = {.accumulate = true, .y = unit->total};
    tess_fsdp_gradient_fetch(unit, TESS_PAGE_OVERWRITE);
    TESS_TRY(tess_fsdp_sums_here(unit, &total, 1));
    TESS_TRY(tess_fsdp_gradient_wait(unit));
    uint64_t number = ++family->sequence.issued;
    tess_team_label(family->teams.shard_team, unit->label, unit->number);
    tess_status status = tess_all_gather_pieces(family->teams.shard_team, unit->total, TESS_F32, unit->gradient,
                                                TESS_F32, unit->gradient_pieces, (size_t)unit->n_trainable, NULL);
    tess_team_label(family->teams.shard_team, NULL, -1);
    TESS_TRY_CTX(status, "gradients of unit '%s'", unit->name);
    family->sequence.proven = number;
    tess_fsdp_gradient_release(unit);
    return TESS_OK;
}

tess_status tess_fsdp_reduce_total(tess_unit *unit)
{
    unit->total = tess_leaf_total(&unit->counter, unit->steps, &unit->n_steps);
    TESS_TRY(add_rest(unit));
    if (unit->family->facts.replicated)
        TESS_TRY(gather_gradient(unit));
    tess_fsdp_sums_release(unit);
    return TESS_OK;
}

/* ---- State on disk: prefetches ---- */
/* Returns an accumulator that is in use although the counter does not count it yet. */
static bool is_under_way(const tess_unit *unit)
{
    return unit->reduce_work != NULL || unit->replica_work != NULL || unit->incoming != NULL || unit->in_place != NULL;
}

/* A leaf in place is written from the first pass on, any other leaf in the last pass. */
static bool begins_sum(const tess_unit *unit)
{
    const tess_fsdp *fsdp = unit->fsdp;
    return tess_fsdp_in_place(unit) ? fsdp->step.pass == 0 : fsdp->step.pass == fsdp->step.n_passes - 1;
}

/* Prefetches from disk the sums that the unit's next leaves need; the counter gives the same sums then. */
void tess_fsdp_reduce_ahead(const tess_unit *unit)
{
    const tess_fsdp *fsdp = unit->fsdp;
    tess_leaf_counter counter = unit->counter;
    tess_leaf_step steps[TESS_LEAF_STEPS];
    int n = 0;
    if (!tess_fsdp_sums_on_disk(fsdp) || unit->n_trainable == 0 || unit->n_begun > 0 || is_under_way(unit) ||
        !begins_sum(unit))
        return;
    if (tess_fsdp_in_place(unit) || unit->family->teams.n_replicas > 1)
        steps[n++] = (tess_leaf_step){.y = tess_leaf_unused(&counter)};
    else
        tess_leaf_push(&counter, tess_fsdp_leaves_of(fsdp, unit->micro), steps, &n);
    tess_fsdp_sums_fetch(unit, steps, n);
}

void tess_fsdp_reduce_total_ahead(const tess_unit *unit)
{
    tess_leaf_counter counter = unit->counter;
    tess_leaf_step steps[TESS_LEAF_STEPS];
    int n = 0;
    if (!tess_fsdp_sums_on_disk(unit->fsdp) || is_under_way(unit))
        return;
    tess_leaf_total(&counter, steps, &n);
    tess_fsdp_sums_fetch(unit, steps, n);
}
