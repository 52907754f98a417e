/* Reductions. The ranks of a host add what they have for a rank elsewhere, one partial for each subtree of the
 * canonical tree that is wholly theirs (one, when hosts hold aligned powers of two), and send it there. The block's
 * owner adds the partials of all hosts in the tree's order.
 *
 * A rank's area in a round: what it shows, a part for each rank of the team (nothing where siblings read its buffer);
 * the partials that it sends; the partials of all hosts for its own block. */
#include <string.h>

#include "comm/hosts/hosts_impl.h"

static tess_dtype shown_dtype(const tess_work *work)
{
    return work->fp.kind == TESS_TRACE_REDUCE_SCATTER_PIECES ? work->in_dtype : work->dtype;
}

static size_t shown_size(const tess_work *work)
{
    return tess_dtype_size(shown_dtype(work));
}

static tess_op op_of(const tess_work *work)
{
    return work->fp.kind == TESS_TRACE_REDUCE_SCATTER_PIECES ? TESS_SUM : work->op;
}

static size_t partial_size(const tess_work *work)
{
    return tess_dtype_size(tess_reduce_partial_dtype(shown_dtype(work), op_of(work)));
}

/* ---- Places of data ---- */
static uint64_t offset_in_job(const tess_work *work, int rank)
{
    return tess_control_post(work->team->control, work->team->size, work->fp.sequence, rank)->in_offset;
}

static uint8_t *shown_by(const tess_work *work, uint64_t round, int index, int block)
{
    const comm_hosts *h = hosts_of(work->team);
    return hosts_area(h, index, round) + (size_t)block * h->rounds->per_round * shown_size(work);
}

/* Returns the address of the run's elements in the data of the sibling `rank`. */
static const uint8_t *leaf(const tess_work *work, uint64_t round, int rank, int block, const tess_byte_run *run,
                           size_t first)
{
    const comm_hosts *h = hosts_of(work->team);
    size_t size = shown_size(work);
    if (rank == work->team->rank)
        return work->in + run->full * size;
    if (offset_in_job(work, rank) != CONTROL_PRIVATE)
        return work->team->runtime->job.base + offset_in_job(work, rank) + run->full * size;
    return shown_by(work, round, h->members[rank].index, block) + (run->packed - first) * size;
}

/* Returns the partials that this rank sends to the k-th rank that it handles. */
static uint8_t *partials_sent(const tess_work *work, uint64_t round, int k)
{
    const comm_hosts *h = hosts_of(work->team);
    return shown_by(work, round, h->index, work->team->size) +
           (size_t)k * (size_t)h->rounds->subtrees->most * h->rounds->per_round * partial_size(work);
}

/* Returns the partials for this rank's own block from number `subtree` on. Those of earlier subtrees come before it. */
static uint8_t *partial_got(const tess_work *work, uint64_t round, int subtree, size_t count)
{
    const comm_hosts *h = hosts_of(work->team);
    return partials_sent(work, round, h->rounds->way->most_sources) + (size_t)subtree * count * partial_size(work);
}

/* ---- Steps of a round ---- */
/* Each partial is a separate message, because the subtrees of a host need not be adjacent. */
static tess_status receive(tess_work *work, uint64_t round)
{
    const comm_hosts *h = hosts_of(work->team);
    int me = work->team->rank;
    size_t first, count = hosts_span(work, round, hosts_block_of(work, me), &first);
    const hosts_subtrees *subtrees = h->rounds->subtrees;
    for (int s = 0; s < subtrees->n; s++)
        if (subtrees->at[s].host != h->mine)
            TESS_TRY(hosts_receive(work, round, partial_got(work, round, s, count), count * partial_size(work),
                                   hosts_handler(h, h->rounds->way, subtrees->at[s].host, me)));
    return TESS_OK;
}

static tess_status show(tess_work *work, uint64_t round)
{
    const comm_hosts *h = hosts_of(work->team);
    size_t size = shown_size(work);
    if (offset_in_job(work, work->team->rank) != CONTROL_PRIVATE || hosts_n_local(h, h->mine) == 1)
        return TESS_OK;
    for (int rank = 0; rank < work->team->size; rank++) {
        size_t first, count = hosts_span(work, round, hosts_block_of(work, rank), &first);
        uint8_t *to = shown_by(work, round, h->index, rank);
        tess_byte_run_cursor cursor = {0};
        tess_byte_run run;
        while (rank != work->team->rank && hosts_next_run(work, rank, first, count, &cursor, &run))
            memcpy(to + (run.packed - first) * size, work->in + run.full * size, run.count * size);
    }
    return TESS_OK;
}

/* Computes the subtree's partial sum of the block's elements in the round. */
static void add_subtree(tess_work *work, uint64_t round, const hosts_subtree *subtree, int block, uint8_t *to)
{
    size_t first, count = hosts_span(work, round, hosts_block_of(work, block), &first);
    tess_byte_run_cursor cursor = {0};
    tess_byte_run run;
    while (hosts_next_run(work, block, first, count, &cursor, &run)) {
        const void **leaves = work->team->lists.rows;
        for (int rank = subtree->begin; rank < subtree->end; rank++)
            leaves[rank - subtree->begin] = leaf(work, round, rank, block, &run, first);
        tess_work_note(work, tess_reduce_partial(tess_work_stream(work), leaves, subtree->end - subtree->begin,
                                                 shown_dtype(work), op_of(work),
                                                 to + (run.packed - first) * partial_size(work), run.count));
    }
}

/* If the subtree is a single contiguous leaf in the partial's dtype, the leaf is sent from its place without a copy. */
static const uint8_t *lone_leaf(const tess_work *work, const hosts_subtree *subtree, int block, size_t first,
                                size_t count)
{
    tess_byte_run_cursor cursor = {0};
    tess_byte_run run;
    bool fits = subtree->end - subtree->begin == 1 && subtree->begin == work->team->rank &&
                tess_reduce_partial_dtype(shown_dtype(work), op_of(work)) == shown_dtype(work);
    if (!fits || !hosts_next_run(work, block, first, count, &cursor, &run) || run.count != count)
        return NULL;
    return work->in + run.full * shown_size(work);
}

static tess_status fold(tess_work *work, uint64_t round)
{
    const comm_hosts *h = hosts_of(work->team);
    const hosts_way *way = h->rounds->way;
    for (int k = 0; k < way->n_sources; k++) {
        int to = way->sources[k];
        size_t first, count = hosts_span(work, round, hosts_block_of(work, to), &first),
                      bytes = count * partial_size(work);
        uint8_t *at = partials_sent(work, round, k);
        for (int s = 0; s < h->rounds->subtrees->n && count > 0; s++) {
            const hosts_subtree *subtree = &h->rounds->subtrees->at[s];
            if (subtree->host != h->mine)
                continue;
            const uint8_t *from = lone_leaf(work, subtree, to, first, count);
            if (from == NULL) {
                add_subtree(work, round, subtree, to, at);
                from = at;
            }
            TESS_TRY(hosts_send(work, round, from, bytes, to));
            at += bytes;
        }
    }
    return TESS_OK;
}

/* Collects the partials of a run's elements whose subtrees lie in ranks [begin, begin + n), as inputs of a tree over
 * n ranks. */
static int partials_of(const tess_work *work, uint64_t round, int begin, int n, size_t first, size_t count,
                       const tess_byte_run *run, tess_partial *partials)
{
    const hosts_subtrees *subtrees = hosts_of(work->team)->rounds->subtrees;
    int n_partials = 0;
    for (int s = 0; s < subtrees->n; s++)
        if (subtrees->at[s].begin >= begin && subtrees->at[s].end <= begin + n)
            partials[n_partials++] =
                (tess_partial){subtrees->at[s].begin - begin, subtrees->at[s].end - begin,
                               partial_got(work, round, s, count) + (run->packed - first) * partial_size(work)};
    return n_partials;
}

static void take_steps(tess_work *work, uint64_t round, size_t first, size_t count, const tess_byte_run *run)
{
    int n_steps;
    tess_leaf_step sum;
    const tess_leaf_step *steps = tess_work_steps(work, work->team->size, &sum, &n_steps);
    tess_partial *partials = work->team->lists.partials;
    for (int i = 0; i < n_steps; i++) {
        const tess_leaf_step *step = &steps[i];
        if (step->n == 0) {
            tess_work_note(work, tess_leaf_run(tess_work_stream(work), step, 1, NULL, NULL, 0, TESS_F32, run->shard,
                                               run->count, false, NULL));
            continue;
        }
        int n = partials_of(work, round, step->begin, step->n, first, count, run, partials);
        tess_work_note(work, tess_reduce_finish(tess_work_stream(work), partials, work->team->lists.rows, n, TESS_F32,
                                                TESS_SUM, step->y + run->shard, run->count, step->accumulate));
    }
}

static void take(tess_work *work, uint64_t round)
{
    const comm_hosts *h = hosts_of(work->team);
    const hosts_subtrees *subtrees = h->rounds->subtrees;
    int me = work->team->rank;
    size_t first, count = hosts_span(work, round, hosts_block_of(work, me), &first);
    for (int s = 0; s < subtrees->n; s++)
        if (subtrees->at[s].host == h->mine && count > 0)
            add_subtree(work, round, &subtrees->at[s], me, partial_got(work, round, s, count));
    tess_byte_run_cursor cursor = {0};
    tess_byte_run run;
    while (hosts_next_run(work, me, first, count, &cursor, &run)) {
        if (work->fp.kind == TESS_TRACE_REDUCE_SCATTER_PIECES) {
            take_steps(work, round, first, count, &run);
            continue;
        }
        tess_partial *partials = work->team->lists.partials;
        int n = partials_of(work, round, 0, work->team->size, first, count, &run, partials);
        tess_work_note(work, tess_reduce_finish(
                                 tess_work_stream(work), partials, work->team->lists.rows, n, work->dtype, op_of(work),
                                 work->out + run.shard * tess_dtype_size(work->dtype), run.count, false));
    }
}

void hosts_plan_fold(tess_work *work)
{
    const comm_hosts *h = hosts_of(work->team);
    hosts_rounds *r = h->rounds;
    size_t begin;
    bool parts = work->fp.kind == TESS_TRACE_ALL_REDUCE;
    r->subtrees = hosts_subtrees_of(work);
    size_t partials = (size_t)r->way->most_sources * (size_t)r->subtrees->most + (size_t)r->subtrees->n;
    r->pass[0] = (hosts_pass){.folds = true,
                              .block = parts ? hosts_part(work, 0, &begin) : work->n,
                              .element = (size_t)work->team->size * shown_size(work) + partials * partial_size(work),
                              .receive = receive,
                              .show = show,
                              .fold = fold,
                              .take = take};
    r->n_passes = parts ? 2 : 1;
    if (parts)
        r->pass[1] = hosts_pass_of_parts(work);
    r->siblings_read = true;
}
