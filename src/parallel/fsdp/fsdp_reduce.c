/* The canonical sum of a unit's gradients: micro-batch i = s * W + r is leaf i of a binary counter (comm/leaf_sum.h).
 *
 * The reduce-scatter of local step s gives the owner of a shard the leaves of all W ranks at the same time. The owner
 * adds them as a block. If W is a power of two, the block is one subtree, and it is added to the older sum last when s
 * is odd. So the sum is the pairwise tree over i, whatever W is. The remaining carries run on all threads of the
 * stream.
 *
 * A gradient takes one of the ways of the table below. With replicas a leaf of the counter is the sum over all ranks:
 * first over the shards, then in the background over the replicas, which a network connects. The sum of one unit over
 * the replicas begins when the next unit is sent, which is the same place in the sequence of calls on all ranks. Sums
 * that are no subtrees are in fsdp_exchange.c. */
#include "parallel/fsdp/fsdp_impl.h"

/* Adds what the collective has left. A sum of two values commutes, so y += x gives the tree's bits whichever side is
 * older. */
static tess_status add_rest(tess_unit *unit)
{
    tess_fsdp_sums *sums = &unit->sums;
    tess_stream *stream = NULL;
    TESS_TRY(tess_fsdp_stream(&unit->fsdp->place, &stream));
    TESS_TRY(tess_fsdp_sums_here(unit, sums->steps + sums->n_sent, sums->n_steps - sums->n_sent));
    unit->fsdp->traffic.reduced_bytes += 3 * sizeof(float) * sums->elements * (uint64_t)(sums->n_steps - sums->n_sent);
    TESS_TRY(tess_fsdp_sums_add(sums, stream));
    tess_fsdp_sums_release(unit);
    return TESS_OK;
}

static void count_traffic(const tess_unit *unit, const tess_leaf_step *steps, int n_steps)
{
    tess_fsdp *fsdp = unit->fsdp;
    for (int i = 0; i < n_steps; i++) {
        size_t read = steps[i].n > 0 ? (size_t)steps[i].n * tess_dtype_size(fsdp->reduce_form->moves) : sizeof(float);
        fsdp->traffic.reduced_bytes +=
            unit->layout.own_elements * (read + (size_t)(1 + steps[i].accumulate) * sizeof(float));
    }
}

/* Enters the micro-batch's leaves in the counter. */
static void push(tess_unit *unit)
{
    tess_fsdp_sums_push(&unit->sums, tess_fsdp_gradients_of(&unit->fsdp->step, unit->family, unit->reduction.micro));
}

/* Encodes the gradient in the window, in the form in which it travels. */
static tess_status encode_window(tess_unit *unit)
{
    const tess_wire_form *form = unit->fsdp->reduce_form;
    tess_stream *stream = NULL;
    if (unit->window == NULL || unit->window->staging == NULL)
        return TESS_OK;
    TESS_TRY(tess_fsdp_stream(&unit->fsdp->place, &stream));
    for (int i = 0; i < unit->n_params; i++) {
        const tess_fsdp_param *p = &unit->params[i];
        char *to = (char *)unit->window->data + form->row_bytes(form, (int64_t)p->window_offset);
        if (p->trainable)
            TESS_TRY(form->encode(form, stream, unit->window->staging + p->window_offset, p->rows, p->row, to));
    }
    return TESS_OK;
}

/* ---- One rank: every second micro-batch is written directly into a sum, because no sum waits for it ---- */
static bool is_in_place(const tess_unit *unit)
{
    return unit->family->facts.alone && unit->fsdp->reduce_form->moves == TESS_F32 && unit->micro % 2 == 0;
}

static tess_status alone_begin(tess_unit *unit)
{
    if (!is_in_place(unit))
        return TESS_OK;
    unit->in_place = tess_leaf_unused(&unit->sums.counter);
    tess_leaf_step sum = {.y = unit->in_place};
    return tess_fsdp_sums_here(unit, &sum, 1);
}

/* Adds or widens the window's gradients, on all threads of the stream. A call takes many parameters, because on a GPU a
 * call for each would take longer than the sums of small ones. */
static tess_status sum_window(tess_unit *unit)
{
    enum { RUNS = 64 };
    const tess_wire_form *form = unit->fsdp->reduce_form;
    tess_leaf_step *step = unit->sums.steps;
    tess_reduce_run runs[RUNS];
    int64_t n = 0;
    tess_stream *stream = NULL;
    TESS_TRY(tess_fsdp_stream(&unit->fsdp->place, &stream));
    push(unit);
    TESS_TRY(tess_fsdp_sums_here(unit, step, 1));
    count_traffic(unit, step, 1);
    for (int i = 0; i < unit->n_params; i++) {
        const tess_fsdp_param *p = &unit->params[i];
        if (p->trainable)
            runs[n++] = (tess_reduce_run){(int64_t)p->window_offset, (int64_t)p->accumulator_offset, p->rows * p->row};
        if (n == RUNS || (n > 0 && i + 1 == unit->n_params)) {
            TESS_TRY(form->sum(form, stream, unit->window->data, runs, n, step->accumulate, step->y));
            n = 0;
        }
    }
    tess_fsdp_window_release(unit);
    return TESS_OK;
}

static tess_status alone_send(tess_unit *unit)
{
    if (unit->in_place == NULL)
        TESS_TRY(sum_window(unit));
    else
        tess_fsdp_sums_place(&unit->sums, unit->in_place);
    unit->in_place = NULL;
    return add_rest(unit);
}

/* ---- Shards ---- */
static tess_status send(tess_unit *unit, const tess_leaf_step *steps, int n_steps)
{
    tess_fsdp_family *family = unit->family;
    tess_fsdp *fsdp = unit->fsdp;
    unit->reduction.number = ++family->sequence.issued;
    unit->window->reducing = true;
    tess_fsdp_stamp_now(family, unit->reduction.number);
    unit->window->released = ++family->n_windows_released;
    count_traffic(unit, steps, n_steps);
    tess_team_label(family->teams.shard_team, unit->label, unit->number);
    tess_status status = tess_reduce_scatter_leaves(
        family->teams.shard_team, unit->window->data, fsdp->reduce_form->moves, steps, n_steps,
        unit->layout.reduce_pieces, (size_t)unit->n_trainable, &unit->reduction.work);
    tess_team_label(family->teams.shard_team, NULL, -1);
    return status;
}

static tess_status wait_for_shards(tess_unit *unit)
{
    tess_fsdp_family *family = unit->family;
    TESS_TRY_CTX(tess_fsdp_wait(family, &unit->reduction.work, unit->reduction.number), "gradients of unit '%s'",
                 unit->name);
    tess_fsdp_bad_gradient_note(unit);
    if (unit->reduction.number > family->sequence.proven)
        family->sequence.proven = unit->reduction.number;
    tess_fsdp_window_release(unit);
    return TESS_OK;
}

static tess_status shards_send(tess_unit *unit)
{
    push(unit);
    TESS_TRY(tess_fsdp_sums_here(unit, unit->sums.steps, unit->sums.n_sent));
    return send(unit, unit->sums.steps, unit->sums.n_sent);
}

/* When the sum over this replica's shards is complete, begins the sum over the replicas. */
static tess_status finish_shards(tess_unit *unit)
{
    if (unit->reduction.work == NULL)
        return TESS_OK;
    TESS_TRY(wait_for_shards(unit));
    return unit->way->combine != NULL ? unit->way->combine(unit) : TESS_OK;
}

/* ---- Replicas: the sum over all ranks is a leaf on all of them ---- */
tess_status tess_fsdp_reduce_flush(tess_fsdp *fsdp)
{
    tess_unit *unit = fsdp->last_reduced;
    fsdp->last_reduced = NULL;
    return unit != NULL ? finish_shards(unit) : TESS_OK;
}

/* Begins the sum over the replicas for the unit that was sent before. */
static tess_status replicas_send(tess_unit *unit)
{
    tess_fsdp *fsdp = unit->fsdp;
    const bool divides = unit->family->facts.divides;
    tess_fsdp_reduction *r = &unit->reduction;
    if (divides) {
        tess_fsdp_gradient_fetch(unit, TESS_PAGE_OVERWRITE);
        TESS_TRY(tess_fsdp_gradient_wait(unit, TESS_PAGE_OVERWRITE));
    }
    r->sum = divides ? NULL : tess_leaf_unused(&unit->sums.counter);
    r->step = (tess_leaf_step){.n = unit->family->teams.n_shards, .y = divides ? unit->gradient : r->sum};
    if (!divides)
        TESS_TRY(tess_fsdp_sums_here(unit, &r->step, 1));
    TESS_TRY(send(unit, &unit->reduction.step, 1));
    TESS_TRY(tess_fsdp_reduce_flush(fsdp));
    fsdp->last_reduced = unit;
    return TESS_OK;
}

/* Each replica gets the whole sum, or the part of it that it keeps: the sum is a complete subtree. */
static tess_status replicas_combine(tess_unit *unit)
{
    tess_fsdp_reduction *r = &unit->reduction;
    tess_team *team = unit->family->teams.replicate_team;
    tess_status status;
    float *sum = r->step.y;
    tess_team_label(team, unit->label, unit->number);
    if (unit->family->facts.divides) {
        r->sum = tess_leaf_unused(&unit->sums.counter);
        r->step = (tess_leaf_step){.n = unit->family->teams.n_replicas, .y = r->sum};
        status = tess_fsdp_sums_here(unit, &r->step, 1);
        if (status == TESS_OK)
            status = tess_reduce_scatter_leaves(team, sum, TESS_F32, &r->step, 1, unit->layout.gradient_pieces, 1,
                                                &r->replica_work);
    } else {
        status = tess_all_reduce(team, sum, sum, unit->sums.elements, TESS_F32, TESS_SUM, &r->replica_work);
    }
    tess_team_label(team, NULL, -1);
    TESS_TRY_CTX(status, "gradients of unit '%s' over the replicas", unit->name);
    return TESS_OK;
}

static tess_status replicas_finish(tess_unit *unit)
{
    if (unit->reduction.replica_work != NULL) {
        TESS_TRY_CTX(tess_work_wait(&unit->reduction.replica_work, 0), "gradients of unit '%s' over the replicas",
                     unit->name);
        tess_fsdp_sums_place(&unit->sums, unit->reduction.sum);
        unit->reduction.step.y = NULL;
        if (unit->family->facts.divides)
            tess_fsdp_gradient_release(unit);
    }
    return add_rest(unit);
}

static tess_status exchange_send(tess_unit *unit)
{
    int n_steps;
    tess_stream *stream = NULL;
    const tess_leaf_step *steps = tess_fsdp_exchange_steps(unit->family, unit->reduction.micro, &n_steps);
    TESS_TRY(tess_fsdp_reduce_flush(unit->fsdp));
    TESS_TRY(send(unit, steps, n_steps));
    TESS_TRY(wait_for_shards(unit));
    TESS_TRY(tess_fsdp_stream(&unit->fsdp->place, &stream));
    return tess_fsdp_exchange_add(unit, stream);
}

void tess_fsdp_reduction_poll(const tess_fsdp_reduction *r)
{
    if (r->work != NULL)
        tess_work_done(r->work);
    if (r->replica_work != NULL)
        tess_work_done(r->replica_work);
}

void tess_fsdp_reduction_drop(tess_fsdp_reduction *r)
{
    if (r->work != NULL)
        tess_work_wait(&r->work, 0);
    if (r->replica_work != NULL)
        tess_work_wait(&r->replica_work, 0);
}

/* ---- The ways ---- */
static const tess_fsdp_way alone_way = {alone_begin, encode_window, alone_send, NULL, add_rest, NULL};
static const tess_fsdp_way shards_way = {NULL, encode_window, shards_send, NULL, add_rest, NULL};
static const tess_fsdp_way exchange_way = {NULL, encode_window, exchange_send, NULL, add_rest, NULL};
static const tess_fsdp_way replicas_way = {
    NULL, encode_window, replicas_send, replicas_combine, replicas_finish, exchange_send};

const tess_fsdp_way *tess_fsdp_way_of(const tess_fsdp_family *family)
{
    if (family->teams.n_replicas == 1)
        return family->facts.alone ? &alone_way : &shards_way;
    return family->facts.portion == 1 ? &replicas_way : &exchange_way;
}

tess_status tess_fsdp_reduce(tess_unit *unit)
{
    const tess_fsdp_way *way = unit->way;
    const bool is_part = tess_fsdp_leaves_of(&unit->fsdp->step, unit->micro) < unit->fsdp->step.shares.total;
    unit->deferred = false;
    unit->reduction.micro = unit->micro;
    TESS_TRY_CTX(is_part && way->send_part != NULL ? way->send_part(unit) : way->send(unit), "gradients of unit '%s'",
                 unit->name);
    return TESS_OK;
}

tess_status tess_fsdp_reduce_finish(tess_unit *unit)
{
    tess_fsdp *fsdp = unit->fsdp;
    if (!tess_fsdp_reduction_is_open(&unit->reduction))
        return TESS_OK;
    tess_phase phase = tess_phase_switch(fsdp->clock, TESS_PHASE_REDUCE);
    TESS_TRY(finish_shards(unit));
    TESS_TRY(unit->way->finish(unit));
    tess_phase_switch(fsdp->clock, phase);
    return TESS_OK;
}

static tess_status gather_gradient(tess_unit *unit)
{
    tess_fsdp_family *family = unit->family;
    const bool divides = family->facts.divides;
    tess_team *team = divides ? family->teams.replicate_team : family->teams.shard_team;
    tess_leaf_step total = {.accumulate = true, .y = unit->total};
    tess_fsdp_gradient_fetch(unit, TESS_PAGE_OVERWRITE);
    TESS_TRY(tess_fsdp_sums_here(unit, &total, 1));
    TESS_TRY(tess_fsdp_gradient_wait(unit, TESS_PAGE_OVERWRITE));
    tess_team_label(team, unit->label, unit->number);
    tess_status status =
        tess_all_gather_pieces(team, total.y, TESS_F32, unit->gradient, TESS_F32, unit->layout.gradient_pieces,
                               (size_t)unit->layout.n_gradient_pieces, NULL);
    tess_team_label(team, NULL, -1);
    TESS_TRY_CTX(status, "gradients of unit '%s'", unit->name);
    if (!divides)
        family->sequence.proven = ++family->sequence.issued;
    tess_fsdp_gradient_release(unit);
    tess_fsdp_sums_release(unit);
    return TESS_OK;
}

tess_status tess_fsdp_reduce_total(tess_unit *unit)
{
    unit->total = tess_leaf_total(&unit->sums.counter, unit->sums.steps, &unit->sums.n_steps);
    TESS_TRY(add_rest(unit));
    return tess_fsdp_gathers_gradient(unit->family) ? gather_gradient(unit) : TESS_OK;
}

/* ---- State on disk: prefetches ---- */
/* Returns an accumulator that is in use although the counter does not count it yet. */
static bool is_under_way(const tess_unit *unit)
{
    return tess_fsdp_reduction_is_open(&unit->reduction) || unit->reduction.step.y != NULL || unit->in_place != NULL;
}

/* A leaf in place is written from the first pass on, any other leaf in the last pass. */
static bool begins_sum(const tess_unit *unit)
{
    const tess_fsdp_progress *step = &unit->fsdp->step;
    return is_in_place(unit) ? step->pass == 0 : tess_fsdp_is_last_pass(step);
}

/* Prefetches from disk the sums that the unit's next leaves need; the counter gives the same sums then. */
void tess_fsdp_reduce_ahead(const tess_unit *unit)
{
    tess_leaf_counter counter = unit->sums.counter;
    tess_leaf_step steps[TESS_LEAF_STEPS];
    int n = 0;
    if (!tess_fsdp_is_on_disk(unit->fsdp, TESS_POOL_GRADS) || unit->n_trainable == 0 || unit->uses.n_begun > 0 ||
        is_under_way(unit) || !begins_sum(unit))
        return;
    if (is_in_place(unit) || unit->family->teams.n_replicas > 1)
        steps[n++] = (tess_leaf_step){.y = tess_leaf_unused(&counter)};
    else
        tess_leaf_push(&counter, tess_fsdp_gradients_of(&unit->fsdp->step, unit->family, unit->micro), steps, &n);
    tess_fsdp_sums_fetch(unit, steps, n);
}

void tess_fsdp_reduce_total_ahead(const tess_unit *unit)
{
    tess_leaf_counter counter = unit->sums.counter;
    tess_leaf_step steps[TESS_LEAF_STEPS];
    int n = 0;
    if (!tess_fsdp_is_on_disk(unit->fsdp, TESS_POOL_GRADS) || is_under_way(unit))
        return;
    tess_leaf_total(&counter, steps, &n);
    tess_fsdp_sums_fetch(unit, steps, n);
}
