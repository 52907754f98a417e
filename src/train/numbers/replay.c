/* A step computed again, and which of all ranks was the first to see what is no number. */
#include <math.h>

#include "tessera/comm.h"
#include "train/numbers/numbers_impl.h"

/* What the first run has left behind: what its checks saw (numbers.check=always), else its sums and who spoilt them. */
static tess_status look_back(tess_numbers *n, const tess_loss_sum *own, tess_bad_number *bad)
{
    *bad = n->first;
    TESS_TRY(tess_bad_sums(n, bad));
    bad->loss_is_bad = !isfinite(tess_exact_value(&own->nll));
    return TESS_OK;
}

static tess_status run_again(tess_numbers *n, tess_engine_report *again, tess_bad_number *bad)
{
    tess_loss_sum own = {0};
    tess_batch_source source = tess_replay_batches_again(&n->kept);
    bool was_checking = n->checking;
    tess_bad_number weights;
    tess_bad_clear(n, &weights);
    TESS_TRY(tess_bad_weights(n, &weights));
    n->checking = true;
    tess_numbers_watch(n);
    tess_status status = tess_engine_gradients(n->engine, &source, &own);
    n->checking = was_checking;
    tess_numbers_watch(n);
    TESS_TRY(status);
    *bad = weights.stage != TESS_BAD_NONE ? weights : n->first;
    TESS_TRY(tess_bad_sums(n, bad));
    bad->loss_is_bad = !isfinite(tess_exact_value(&own.nll));
    return tess_engine_measure(n->engine, &own, again);
}

static int compare_places(const tess_bad_number *a, const tess_bad_number *b)
{
    const int64_t keys[][2] = {{a->stage, b->stage}, {a->local, b->local}, {a->order, b->order}};
    for (int i = 0; i < 3; i++)
        if (keys[i][0] != keys[i][1])
            return keys[i][0] < keys[i][1] ? -1 : 1;
    return 0;
}

/* The first of all ranks. What several saw at the same place belongs to the one that keeps the row. */
static void find_first(const tess_bad_number *of_rank, int world, tess_replay *replay)
{
    int best = 0;
    for (int r = 1; r < world; r++) {
        int order = compare_places(&of_rank[r], &of_rank[best]);
        if (order < 0 || (order == 0 && of_rank[r].owner > of_rank[best].owner))
            best = r;
    }
    replay->first = of_rank[best];
    replay->culprit = of_rank[best].stage < TESS_BAD_SUM ? of_rank[best].rank : -1;
    if (of_rank[best].stage == TESS_BAD_GRADIENT) {
        replay->n_ranks = of_rank[best].n_ranks;
        replay->culprit = replay->n_ranks == 1 ? replay->culprit : -1;
        return;
    }
    for (int r = 0; r < world; r++)
        replay->n_ranks += of_rank[r].stage != TESS_BAD_NONE && compare_places(&of_rank[r], &of_rank[best]) == 0;
}

/* Sums do not tell whose part of them was bad. A rank's own loss does. */
static void find_loss(const tess_bad_number *of_rank, int world, tess_replay *replay)
{
    if (replay->repeats || replay->first.stage < TESS_BAD_SUM)
        return;
    replay->culprit = world == 1 ? 0 : -1;
    for (int r = world - 1; r >= 0; r--)
        if (of_rank[r].loss_is_bad) {
            replay->first = of_rank[r];
            replay->first.stage = TESS_BAD_LOSS;
            replay->culprit = r;
        }
}

static tess_status gather_first(const tess_numbers *n, const tess_bad_number *own, tess_replay *replay)
{
    const tess_engine *e = n->engine;
    tess_bad_number *of_rank;
    TESS_TRY(tess_mem_alloc_array(e->mem, TESS_POOL_MISC, (size_t)e->world, sizeof(*of_rank), "findings",
                                  (void **)&of_rank));
    tess_team_label(e->team, "finite", -1);
    tess_status status = tess_all_gather(e->team, own, of_rank, sizeof(*own), TESS_U8, NULL);
    tess_team_label(e->team, NULL, -1);
    if (status == TESS_OK) {
        find_first(of_rank, e->world, replay);
        find_loss(of_rank, e->world, replay);
    }
    tess_mem_free(e->mem, of_rank);
    return status;
}

tess_status tess_numbers_replay(tess_numbers *n, const tess_loss_sum *own, tess_replay *replay)
{
    tess_bad_number before, now;
    TESS_TRY(look_back(n, own, &before));
    TESS_TRY_CTX(run_again(n, &replay->again, &now), "computing the step again");
    replay->repeats = !isfinite(replay->again.loss) || !isfinite(replay->again.grad_norm);
    return gather_first(n, replay->repeats ? &now : &before, replay);
}
