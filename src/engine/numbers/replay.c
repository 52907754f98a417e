/* Computes a step again from copies of its micro-batches, and finds the rank that was first to see a value that is
 * not finite. */
#include <math.h>
#include <string.h>

#include "base/mem/make_room.h"
#include "tessera/comm.h"
#include "engine/numbers/numbers_impl.h"
#include "base/mem/scoped.h"

/* ---- The step's micro-batches ---- */
static const int32_t *copy_to(int32_t **to, const int32_t *from, int64_t n)
{
    int32_t *copy = *to;
    memcpy(copy, from, (size_t)n * sizeof(*from));
    *to += n;
    return copy;
}

/* Copies the source's next micro-batch and passes the copy on. Its loss is not copied: it is valid throughout the
 * step. */
static tess_status record_next(void *self, int64_t index, tess_batch *batch)
{
    tess_recording *r = self;
    TESS_TRY(r->source.next(r->source.self, index, batch));
    TESS_CHECK(batch->n_tokens <= r->max_tokens && batch->n_seqs <= batch->n_tokens, TESS_E_INVALID,
               "micro-batch %lld has %lld tokens in %lld sequences: training.local_batch_size * training.seq_len allow "
               "%lld tokens, and no sequence is empty",
               (long long)index, (long long)batch->n_tokens, (long long)batch->n_seqs, (long long)r->max_tokens);
    TESS_TRY(tess_mem_make_room(r->mem, TESS_POOL_MISC, (size_t)r->n, sizeof(*r->batches), "copies of micro-batches",
                                &r->capacity, (void **)&r->batches));
    tess_batch *copy = &r->batches[r->n];
    /* One block for ids, positions, targets, and the ends of the largest possible number of sequences */
    if (copy->ids == NULL)
        TESS_TRY(tess_mem_alloc_array(r->mem, TESS_POOL_MISC, (size_t)(4 * r->max_tokens + 1), sizeof(int32_t),
                                      "copies of micro-batches", (void **)&copy->ids));
    int32_t *block = (int32_t *)copy->ids;
    *copy = *batch;
    copy->ids = copy_to(&block, batch->ids, batch->n_tokens);
    copy->pos = copy_to(&block, batch->pos, batch->n_tokens);
    copy->targets = copy_to(&block, batch->targets, batch->n_tokens);
    copy->cu_seqlens = copy_to(&block, batch->cu_seqlens, batch->n_seqs + 1);
    *batch = *copy;
    r->n++;
    return TESS_OK;
}

/* Returns the step's source with another `next`. It has no judge: only the step itself calls it. */
static tess_batch_source through(tess_recording *r, tess_status (*next)(void *self, int64_t index, tess_batch *batch))
{
    tess_batch_source source = r->source;
    source.self = r;
    source.next = next;
    source.judge = NULL;
    return source;
}

tess_batch_source tess_numbers_record(tess_numbers *n, const tess_batch_source *source)
{
    n->recording.source = *source;
    n->recording.n = 0;
    return through(&n->recording, record_next);
}

static tess_status play_next(void *self, int64_t index, tess_batch *batch)
{
    tess_recording *r = self;
    TESS_CHECK(r->next < r->n, TESS_E_INTERNAL, "micro-batch %lld was not recorded", (long long)index);
    *batch = r->batches[r->next++];
    return TESS_OK;
}

void tess_recording_free(tess_recording *r)
{
    for (size_t i = 0; i < r->capacity; i++)
        tess_mem_free(r->mem, (void *)r->batches[i].ids);
    tess_mem_free(r->mem, r->batches);
}

/* ---- Both runs of the step ---- */
/* Adds to the findings of a run (`bad`) its summed gradients, and whether this rank's part of the loss is finite. */
static tess_status add_sums(tess_numbers *n, const tess_loss_sum *own, tess_bad_number *bad)
{
    bad->loss_is_bad = !isfinite(tess_exact_value(&own->nll));
    return tess_bad_sums(n, bad);
}

static tess_status run_again(tess_numbers *n, tess_engine_report *again, tess_bad_number *bad)
{
    tess_loss_sum own = {0};
    n->recording.next = 0;
    tess_batch_source source = through(&n->recording, play_next);
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
    TESS_TRY(add_sums(n, &own, bad));
    return tess_engine_measure(n->engine, &n->recording.source, &own, again);
}

static int compare_places(const tess_bad_number *a, const tess_bad_number *b)
{
    const int64_t keys[][2] = {{a->stage, b->stage}, {a->local, b->local}, {a->order, b->order}};
    for (int i = 0; i < 3; i++)
        if (keys[i][0] != keys[i][1])
            return keys[i][0] < keys[i][1] ? -1 : 1;
    return 0;
}

/* Finds the first bad number over all ranks. If several ranks found it at the same place, the culprit is the one
 * that owns the row. */
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

/* Names the rank whose loss is not finite. Needed if only a sum was bad, which does not show whose part it was. */
static void find_loss(const tess_bad_number *of_rank, int world, tess_replay *replay)
{
    if (replay->repeats || replay->first.stage < TESS_BAD_SUM)
        return;
    replay->culprit = world == 1 ? of_rank[0].rank : -1;
    for (int r = world - 1; r >= 0; r--)
        if (of_rank[r].loss_is_bad) {
            replay->first = of_rank[r];
            replay->first.stage = TESS_BAD_LOSS;
            replay->culprit = of_rank[r].rank;
        }
}

static tess_status gather_first(const tess_numbers *n, const tess_bad_number *own, tess_replay *replay)
{
    const tess_engine *e = n->engine;
    TESS_AUTO(tess_mem_drop) tess_bad_number *of_rank = NULL;
    TESS_TRY(tess_numbers_gather(e, "finite", own, sizeof(*own), (void **)&of_rank));
    find_first(of_rank, e->at.world, replay);
    find_loss(of_rank, e->at.world, replay);
    return TESS_OK;
}

tess_status tess_numbers_replay(tess_numbers *n, const tess_loss_sum *own, tess_replay *replay)
{
    tess_bad_number before = n->first, now;
    TESS_TRY(add_sums(n, own, &before));
    TESS_TRY_CTX(run_again(n, &replay->again, &now), "computing the step again");
    replay->repeats = !isfinite(replay->again.loss) || !isfinite(replay->again.grad_norm);
    return gather_first(n, replay->repeats ? &now : &before, replay);
}
