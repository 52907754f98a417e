/* Parts of a micro-batch: neighbouring data ranks divide its tokens, and the sum of their gradients is that of the
 * micro-batch. As a rule this sum is the lowest part of the tree of all ranks, and needs no call of its own.
 *
 * It must be complete earlier if a gradient is rounded before it travels, or if the gradients of passes are added: one
 * rank that has the whole micro-batch would do both with the sum. Then the ranks add their parts in float32 first, so
 * each has the micro-batch's gradient. The first of them sends it. The others send -0, which changes no bit of a sum.
 */
#include "parallel/fsdp/fsdp_parts.h"

#include "parallel/fsdp/fsdp_impl.h"

/* Returns whether the team's ranks are data ranks [first, first + size), where size divides first. */
static bool is_block(const tess_fsdp_topology *t, const tess_team *team)
{
    const int n = tess_team_size(team), first = t->data - t->data % n;
    bool same = tess_team_rank(team) == t->data % n && first + n <= t->n_data;
    for (int i = 0; i < n && same; i++)
        same = tess_team_global_rank(team, i) == tess_team_global_rank(t->data_team, first + i);
    return same;
}

tess_status tess_fsdp_set_parts(tess_fsdp *fsdp, tess_team *team)
{
    const tess_fsdp_topology *t = &fsdp->topology;
    const int n = tess_team_size(team);
    TESS_CHECK(fsdp->state == TESS_FSDP_BUILDING, TESS_E_INVALID, "fsdp: set_parts after materialize");
    TESS_CHECK((n & (n - 1)) == 0, TESS_E_INVALID,
               "fsdp: %d ranks of team '%s' divide a micro-batch; their number must be a power of two", n,
               tess_team_name(team));
    TESS_CHECK(
        t->n_shards % n == 0 && is_block(t, team), TESS_E_INVALID,
        "fsdp: the %d ranks of team '%s' divide a micro-batch; they must be neighbours in \"dp_shard\" (%d ranks), "
        "in its order, and begin at a multiple of %d",
        n, tess_team_name(team), t->n_shards, n);
    fsdp->parts_team = team;
    return TESS_OK;
}

static bool has_parts(const tess_fsdp *fsdp)
{
    return fsdp->parts_team != NULL && (fsdp->step.n_passes > 1 || fsdp->reduce_form->moves != TESS_F32);
}

tess_status tess_fsdp_parts_check(const tess_fsdp *fsdp)
{
    for (int i = 0; i < fsdp->n_families && has_parts(fsdp); i++)
        TESS_CHECK(
            fsdp->families[i]->teams.parts == 1, TESS_E_UNSUPPORTED,
            "fsdp: family '%s' has other parameters on each of %d data ranks, and ranks of team '%s' add parts of "
            "its gradients: reduce them in float32 and in one pass",
            fsdp->families[i]->name, fsdp->families[i]->teams.parts, tess_team_name(fsdp->parts_team));
    return TESS_OK;
}

/* The most elements between the gradients of neighbours: fsdp_layout.c rounds their sizes up to 32. */
enum { PADDING = 31 };

/* Finds trainable parameters from *i on whose gradients lie one after the other. Returns the number of elements from
 * the first to the last. It counts the padding between them, whose sums nobody reads. 0: no more parameters. */
static size_t next_run(const tess_unit *unit, int *i, float **gradient)
{
    size_t n = 0;
    for (; *i < unit->n_params; ++*i) {
        const tess_fsdp_param *p = &unit->params[*i];
        if (!p->trainable || p->rows * p->row == 0)
            continue;
        float *own = tess_fsdp_gradient(unit, p);
        *gradient = n > 0 ? *gradient : own;
        if (own < *gradient + n || own > *gradient + n + PADDING)
            break;
        n = (size_t)(own - *gradient) + (size_t)(p->rows * p->row);
    }
    return n;
}

tess_status tess_fsdp_parts_sum(tess_unit *unit)
{
    tess_fsdp *fsdp = unit->fsdp;
    tess_team *team = fsdp->parts_team;
    tess_status status = TESS_OK;
    float *gradient;
    int i = 0;
    if (!has_parts(fsdp))
        return TESS_OK;
    const size_t degree = (size_t)tess_team_size(team);
    tess_team_label(team, unit->label, unit->number);
    for (size_t n; status == TESS_OK && (n = next_run(unit, &i, &gradient)) > 0;) {
        status = tess_all_reduce(team, gradient, gradient, n, TESS_F32, TESS_SUM, NULL);
        fsdp->traffic.reduced_bytes += 2 * (degree - 1) * sizeof(float) * n / degree;
    }
    tess_team_label(team, NULL, -1);
    return status == TESS_OK ? TESS_OK : tess_fail_context(status, "parts of the gradients of unit '%s'", unit->name);
}

tess_status tess_fsdp_parts_keep_one(tess_unit *unit)
{
    tess_fsdp *fsdp = unit->fsdp;
    tess_stream *stream = NULL;
    if (!has_parts(fsdp) || tess_team_rank(fsdp->parts_team) == 0)
        return TESS_OK;
    TESS_TRY(tess_fsdp_stream(&fsdp->place, &stream));
    for (int i = 0; i < unit->n_params; i++) {
        const tess_fsdp_param *p = &unit->params[i];
        const int64_t n = p->rows * p->row;
        if (!p->trainable)
            continue;
        float *gradient = tess_fsdp_gradient(unit, p);
        TESS_TRY(tess_stream_fill(stream, gradient, 0, (size_t)n * sizeof(float)));
        TESS_TRY(tess_stream_kernels(stream)->scale(
            stream, &(tess_scale_args){.x = gradient, .factor = -1, .y = gradient, .n = n, .dtype = TESS_F32}));
    }
    return TESS_OK;
}
