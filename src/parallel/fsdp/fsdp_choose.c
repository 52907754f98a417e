/* Computes the facts of a family from the policy, the options and the family's teams. */
#include "parallel/fsdp/fsdp_impl.h"

static bool is_power_of_two(int n)
{
    return (n & (n - 1)) == 0;
}

/* Returns the number of micro-batches in a leaf of the counters. Without replicas the gradient of a rank is a leaf.
 * With replicas a leaf is the sum over all ranks, if that sum and the sum over a replica's shards are subtrees.
 * Otherwise it is the sum over a replica's shards, if that is a subtree. */
static int leaf_of(const tess_fsdp_teams *teams)
{
    if (teams->n_replicas == 1 || !is_power_of_two(teams->n_shards))
        return teams->parts;
    return teams->parts * teams->n_shards * (is_power_of_two(teams->n_replicas) ? teams->n_replicas : 1);
}

/* Whether any `group` ranks of the shard team cannot share copies: they are on several hosts, or each has a device. */
static bool splits(const tess_fsdp_family *family, int group)
{
    return (family->fsdp->place.device != NULL && group > 1) ||
           tess_fsdp_spans_hosts(&family->fsdp->topology, family->teams.shard_team, group);
}

/* Whether the replicas divide the sums. A rank then keeps the finished gradient and a part of each sum, instead of
 * whole sums. This must save at least a whole one: then a step has enough micro-batches to make up for the gather of
 * the finished gradient at its end, since a sum over the replicas moves half as much. */
static bool divides(const tess_fsdp_family *family, bool replicated, int leaf)
{
    const int n_replicas = family->teams.n_replicas;
    const int n_sums = tess_fsdp_sums_needed(&family->teams, leaf, family->fsdp->step_size);
    return !replicated && n_sums * (n_replicas - 1) >= 2 * n_replicas;
}

tess_fsdp_facts tess_fsdp_choose(const tess_fsdp_family *family)
{
    const tess_fsdp *fsdp = family->fsdp;
    const tess_fsdp_teams *teams = &family->teams;
    const tess_strategy strategy = fsdp->policy.strategy;
    const int n = fsdp->policy.reshard_after_forward, leaf = leaf_of(teams);
    const bool alone = teams->n_shards == 1 && teams->n_replicas == 1;
    const bool replicated = strategy == TESS_STRATEGY_NONE && teams->n_shards > 1;
    /* If one rank has its weights on disk, copies would be what leaves memory. */
    const bool persistent = (strategy != TESS_STRATEGY_FULL && strategy != TESS_STRATEGY_HYBRID) ||
                            (teams->n_shards == 1 && !tess_fsdp_is_on_disk(fsdp, TESS_POOL_PARAMS));
    const bool grouped = n > 1 && n < teams->n_shards && !persistent && splits(family, n);
    return (tess_fsdp_facts){
        .alone = alone,
        .replicated = replicated,
        .divides = divides(family, replicated, leaf),
        .persistent = persistent,
        .direct = fsdp->policy.param_dtype == TESS_F32 && (replicated || teams->n_shards == 1),
        .keep = n != 1 && n != teams->n_shards && !grouped,
        .grouped = grouped,
        .defer = strategy == TESS_STRATEGY_ZERO1 && !alone,
        .splits_copies = splits(family, teams->n_shards),
        .leaf = leaf,
        .portion = teams->n_shards * teams->n_replicas * teams->parts / leaf,
    };
}
