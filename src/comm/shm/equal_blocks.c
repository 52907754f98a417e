/* The collectives that move equal blocks: all_gather, gather, all_to_all, broadcast, scatter, reduce_scatter, barrier.
 */
#include "comm/shm/shm_impl.h"

/* out = block of rank 0, block of rank 1, ... */
static void take_all_gather(tess_work *work)
{
    size_t element = shm_element(work);
    for (int r = 0; r < work->team->size; r++)
        shm_take_block(work, work->out + ((size_t)r * work->n + shm_of(work)->first) * element, r, 0);
}

const shm_collective shm_all_gather = {.may_be_inline = true, .take = take_all_gather};

static void take_gather(tess_work *work)
{
    if (work->team->rank == work->root)
        take_all_gather(work);
}

const shm_collective shm_gather = {.may_be_inline = true, .take = take_gather};

static void take_all_to_all(tess_work *work)
{
    size_t element = shm_element(work);
    for (int r = 0; r < work->team->size; r++)
        shm_take_block(work, work->out + ((size_t)r * work->n + shm_of(work)->first) * element, r, work->team->rank);
}

const shm_collective shm_all_to_all = {.block_per_rank = true, .may_be_inline = true, .take = take_all_to_all};

static void take_broadcast(tess_work *work)
{
    size_t element = shm_element(work);
    if (work->team->rank != work->root)
        shm_take_block(work, work->out + shm_of(work)->first * element, work->root, 0);
}

const shm_collective shm_broadcast = {.root_shows = true, .may_be_inline = true, .take = take_broadcast};

static void take_scatter(tess_work *work)
{
    size_t element = shm_element(work);
    shm_take_block(work, work->out + shm_of(work)->first * element, work->root, work->team->rank);
}

const shm_collective shm_scatter = {
    .block_per_rank = true, .root_shows = true, .may_be_inline = true, .take = take_scatter};

/* Computes out = the tree over r of rank r's block for this rank. */
static void take_reduce_scatter(tess_work *work)
{
    const void **blocks = work->team->lists.rows;
    if (shm_of(work)->path == SHM_REACHED) {
        shm_reach_reduce(work, (size_t)work->team->rank * work->n, work->n, work->out);
        return;
    }
    for (int r = 0; r < work->team->size; r++)
        blocks[r] = shm_peer(work, r, work->team->rank);
    void *to = work->out + shm_of(work)->first * shm_element(work);
    tess_work_note(work, tess_reduce(tess_work_stream(work), blocks, work->team->size, work->dtype, work->op, &to, 1,
                                     shm_of(work)->count, shm_streams(work->out_bytes)));
}

const shm_collective shm_reduce_scatter = {.block_per_rank = true, .may_be_inline = true, .take = take_reduce_scatter};

const shm_collective shm_barrier = {.may_be_inline = true};
