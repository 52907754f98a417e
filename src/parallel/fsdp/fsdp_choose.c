/* Computes the facts that follow from the policy and the teams, when any of them changes. */
#include "parallel/fsdp/fsdp_impl.h"

static bool is_power_of_two(int n)
{
    return (n & (n - 1)) == 0;
}

/* Chooses what one leaf of the counters is. Without replicas each micro-batch is a leaf. With replicas a leaf is the
 * sum over all ranks, if that sum and the sum over a replica's shards are subtrees. Otherwise it is the sum over a
 * replica's shards, if that is a subtree. */
static void choose_leaves(tess_fsdp *fsdp)
{
    int world = fsdp->n_shards * fsdp->n_replicas;
    if (fsdp->n_replicas == 1 || !is_power_of_two(fsdp->n_shards))
        fsdp->leaf = 1;
    else
        fsdp->leaf = is_power_of_two(fsdp->n_replicas) ? world : fsdp->n_shards;
    fsdp->portion = world / fsdp->leaf;
}

void tess_fsdp_choose(tess_fsdp *fsdp)
{
    const tess_fsdp_policy *policy = &fsdp->policy;
    tess_strategy strategy = policy->strategy;
    choose_leaves(fsdp);
    fsdp->alone = fsdp->n_shards == 1 && fsdp->n_replicas == 1;
    fsdp->replicated = strategy == TESS_STRATEGY_NONE && fsdp->n_shards > 1;
    fsdp->persistent = (strategy != TESS_STRATEGY_FULL && strategy != TESS_STRATEGY_HYBRID) ||
                       (fsdp->n_shards == 1 && !fsdp->params_on_disk); /* copies would be what leaves memory */
    fsdp->direct = policy->param_dtype == TESS_F32 && (fsdp->replicated || fsdp->n_shards == 1);
    fsdp->keep =
        policy->reshard_after_forward != 1 && policy->reshard_after_forward != fsdp->n_shards && !fsdp->grouped;
    fsdp->defer = strategy == TESS_STRATEGY_ZERO1 && !fsdp->alone;
    fsdp->hold = fsdp->defer || fsdp->n_passes > 1;
}
