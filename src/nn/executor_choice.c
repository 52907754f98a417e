/* Chooses the tensors that backward computes again. Of all pairs of a group and a layer, those that free most bytes
 * for their time come first. Time is counted in operations of matrix products and of attention, which grows with the
 * length of a sequence; passes over memory count nothing. The costs are those of whole layers, so all ranks that
 * share them choose the same. */
#include "nn/executor_impl.h"
#include "nn/layers/transformer_layer.h"

typedef struct choice {
    int unit, group;     /* group: bit number in tess_layer_group */
    double bytes, flops; /* bytes and operations per token, summed over all ranks that share the layer */
} choice;

/* The cost of dropping one group of one layer. (Pairs of equal cost per byte come in the order of groups, then of
 * layers.) */
static choice choice_of(const tess_executor *e, int unit, int group)
{
    const int copies = e->options.sequence_parallel ? 1 : e->model->part.tp_degree;
    const double element = (double)tess_dtype_size(e->options.dtype), length = (double)e->options.max_position;
    const tess_group_cost cost = tess_layer_group_cost(&e->model->blocks[unit], 1 << group, element, length, copies);
    return (choice){unit, group, cost.bytes, cost.flops};
}

static bool comes_before(const choice *a, const choice *b)
{
    double of_a = a->flops * b->bytes, of_b = b->flops * a->bytes;
    if (of_a < of_b || of_a > of_b)
        return of_a < of_b;
    return a->group != b->group ? a->group < b->group : a->unit < b->unit;
}

static bool is_candidate(const tess_executor *e, int unit, int group)
{
    return tess_executor_passes(e, unit) && !tess_executor_is_frozen(e, unit) &&
           (e->options.recompute_groups >> group & 1) != 0;
}

static int count_before(const tess_executor *e, const choice *c)
{
    int n = 0;
    for (int unit = 0; unit < e->model->n_units; unit++)
        for (int group = 0; group < TESS_N_GROUPS; group++)
            if (is_candidate(e, unit, group)) {
                const choice other = choice_of(e, unit, group);
                n += comes_before(&other, c);
            }
    return n;
}

/* SELECTIVE: returns the groups that the unit's layer drops: its pairs that are among the first choices. */
static unsigned chosen(const tess_executor *e, int unit)
{
    unsigned groups = 0;
    if (e->options.recompute_choices == 0)
        return e->options.recompute_groups & TESS_GROUP_ALL;
    for (int group = 0; group < TESS_N_GROUPS; group++)
        if (is_candidate(e, unit, group)) {
            const choice c = choice_of(e, unit, group);
            groups |= count_before(e, &c) < e->options.recompute_choices ? 1u << group : 0;
        }
    return groups;
}

unsigned tess_executor_recomputes(const tess_executor *e, int unit)
{
    const tess_executor_options *o = &e->options;
    if (tess_executor_is_frozen(e, unit) || !tess_executor_passes(e, unit))
        return 0;
    switch (o->recompute) {
    case TESS_RECOMPUTE_NONE:
        return 0;
    case TESS_RECOMPUTE_FULL:
        return TESS_GROUP_ALL;
    case TESS_RECOMPUTE_EVERY_N:
        return e->model->blocks[unit].layer % o->recompute_every == 0 ? TESS_GROUP_ALL : 0;
    case TESS_RECOMPUTE_SELECTIVE:
        break;
    }
    unsigned groups = chosen(e, unit);
    /* The input part of a backward overwrites gate and up with gradients, so they must be computed again, too. */
    return groups != 0 && o->split_backward ? groups | TESS_GROUP_FEED_FORWARD : groups;
}

int tess_executor_count_choices(const tess_executor *e)
{
    int n = 0;
    for (int unit = 0; unit < e->model->n_units; unit++)
        for (int group = 0; group < TESS_N_GROUPS; group++)
            n += is_candidate(e, unit, group);
    return n;
}

int tess_executor_count_dropped(const tess_model *model, const tess_executor_options *options, tess_layer_group group)
{
    const tess_executor counted = {.model = model, .options = *options};
    int n = 0;
    for (int unit = 0; unit < model->n_units; unit++)
        n += (tess_executor_recomputes(&counted, unit) & group) != 0;
    return n;
}
