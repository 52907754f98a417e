/* Checks which rank holds which box of a tensor: boxes are as planned, every element is counted once, and copies are
 * equal. */
#include <stdio.h>

#include "ckpt/catalog/cover.h"
#include "verify/verify_impl.h"

static const run_shard *shard_of(const verify_run *layout, int rank, int tensor)
{
    return &layout->shards[rank * layout->n_tensors + tensor];
}

/* Whether the tensor has no master weights. Ranks that hold no part of it do not count, because they have none in
 * any case. */
static bool is_narrow(const verify_run *layout, int tensor)
{
    for (int rank = 0; rank < layout->ranks; rank++) {
        const run_shard *s = shard_of(layout, rank, tensor);
        if (s->narrow && tess_box_count(layout->tensors[tensor].shape.n_dims, &s->held) > 0)
            return true;
    }
    return false;
}

/* Returns the box that a rank must hold. It is empty on ranks of other pipeline stages, and, unless `copies`, on
 * ranks that only have a copy. */
static tess_box planned_box(const verify_run *layout, int tensor, int rank, bool copies)
{
    tess_param_placement plan = layout->planned.list[tensor];
    const bool sharded = layout->config.parallelism.shard_strategy != TESS_STRATEGY_NONE || is_narrow(layout, tensor);
    const tess_coordinates at = tess_coordinates_of(&layout->config.parallelism, rank);
    plan.place[TESS_AXIS_SHARD].kind = sharded ? TESS_SHARD : TESS_REPLICATE;
    plan.owner = copies && at.place[TESS_AXIS_PP] == plan.copy ? plan.copy : plan.owner;
    return tess_param_placement_box(&plan, &at);
}

/* Checks that every element is primary on exactly one rank. */
static tess_status check_cover(tess_mem *mem, const verify_run *layout, int tensor, char *text)
{
    const tess_shape *shape = &layout->tensors[tensor].shape;
    const tess_box whole = tess_box_whole(shape);
    TESS_AUTO(tess_mem_drop) tess_catalog_piece *parts = NULL;
    char box[256];
    int a, b;
    TESS_TRY(TESS_NEW(mem, layout->ranks, "parts of a tensor", &parts));
    for (int rank = 0; rank < layout->ranks; rank++)
        parts[rank].box = shard_of(layout, rank, tensor)->primary;
    bool missing = false;
    int64_t at[TESS_CATALOG_DIMS];
    TESS_TRY(tess_boxes_overlap(mem, shape->n_dims, parts, layout->ranks, &a, &b));
    if (a >= 0) {
        tess_box common;
        tess_box_meet(shape->n_dims, &parts[a].box, &parts[b].box, &common);
        a = layout->peaks[a].rank;
        b = layout->peaks[b].rank;
        snprintf(text, TESS_VERIFY_TEXT, "elements %s are counted by ranks %d and %d",
                 tess_box_format(shape->n_dims, &common, box, sizeof(box)), a < b ? a : b, a < b ? b : a);
        return TESS_OK;
    }
    TESS_TRY(tess_boxes_first_missing(mem, shape->n_dims, parts, layout->ranks, &whole, &missing, at));
    if (missing)
        snprintf(text, TESS_VERIFY_TEXT, "element %s is counted by no rank",
                 tess_dims_format(shape->n_dims, at, box, sizeof(box)));
    return TESS_OK;
}

static void check_plan(const verify_run *layout, int tensor, char *text)
{
    const tess_shape *shape = &layout->tensors[tensor].shape;
    for (int rank = layout->ranks - 1; rank >= 0; rank--) {
        const tess_box *held = &shard_of(layout, rank, tensor)->held;
        const tess_box plan = planned_box(layout, tensor, rank, false);
        char here[80], there[80];
        bool none = tess_box_count(shape->n_dims, held) == 0 && tess_box_count(shape->n_dims, &plan) == 0;
        if (!none && !tess_box_equal(shape->n_dims, held, &plan))
            snprintf(text, TESS_VERIFY_TEXT, "rank %d holds %s, planned is %s", layout->peaks[rank].rank,
                     tess_box_format(shape->n_dims, held, here, sizeof(here)),
                     tess_box_format(shape->n_dims, &plan, there, sizeof(there)));
    }
}

/* Returns the only rank whose copy differs from most copies of the same box; -1: there is no such rank. */
static int odd_copy(const verify_run *layout, int tensor)
{
    int odd = -1, n_odd = 0, n_dims = layout->tensors[tensor].shape.n_dims;
    for (int rank = 0; rank < layout->ranks; rank++) {
        const run_shard *s = shard_of(layout, rank, tensor);
        int n_copies = 0, n_alike = 0;
        for (int other = 0; other < layout->ranks; other++) {
            const run_shard *o = shard_of(layout, other, tensor);
            bool copy = tess_box_equal(n_dims, &o->held, &s->held);
            n_copies += copy;
            n_alike += copy && o->weights == s->weights;
        }
        if (2 * n_alike < n_copies) {
            odd = rank;
            n_odd++;
        }
    }
    return n_odd == 1 ? odd : -1;
}

/* Checks the copies by their sums. If all copies are equal, the sum over all copies is the sum over all elements
 * times the number of copies. */
static void check_replicas(const verify_run *layout, int tensor, char *text)
{
    const tess_shape *shape = &layout->tensors[tensor].shape;
    int64_t held = 0, n = tess_shape_count(shape);
    for (int rank = 0; rank < layout->ranks; rank++)
        held += tess_box_count(shape->n_dims, &shard_of(layout, rank, tensor)->held);
    uint64_t copies = n > 0 ? (uint64_t)(held / n) : 0;
    char who[32] = "";
    int odd = odd_copy(layout, tensor);
    if (odd >= 0)
        snprintf(who, sizeof(who), ": the odd one is rank %d", layout->peaks[odd].rank);
    for (int64_t step = layout->steps; step >= 1; step--) {
        const run_digest *d = verify_digest_of(layout, step, tensor);
        bool weights = d->held_weights != copies * d->weights, grads = d->held_grads != copies * d->grads;
        if (weights || grads)
            snprintf(text, TESS_VERIFY_TEXT, "after step %lld the ranks' copies of its %s are not the same%s",
                     (long long)step, grads ? "gradient" : "weights", who);
    }
}

tess_status verify_check_shards(tess_mem *mem, const verify_run *layout, int tensor, char text[TESS_VERIFY_TEXT])
{
    check_replicas(layout, tensor, text); /* a later check replaces the message of an earlier one */
    check_plan(layout, tensor, text);
    return check_cover(mem, layout, tensor, text);
}

int64_t verify_most_planned(const verify_run *layout)
{
    int64_t most = 0;
    for (int rank = 0; rank < layout->ranks; rank++) {
        int64_t bytes = layout->peaks[rank].codes;
        for (int i = 0; i < layout->n_tensors; i++) {
            const tess_box all = planned_box(layout, i, rank, true);
            const int n_dims = layout->tensors[i].shape.n_dims;
            bytes += is_narrow(layout, i) ? 0 : tess_box_count(n_dims, &all) * (int64_t)sizeof(float);
        }
        most = bytes > most ? bytes : most;
    }
    return most;
}
