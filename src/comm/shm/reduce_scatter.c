#include "comm/shm/shm_impl.h"

#include "comm/reduce.h"

/* out = tree over r of rank r's block for this rank. */
static void take(tess_work *work)
{
    const void *blocks[JOB_MAX_RANKS];
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

const shm_collective shm_reduce_scatter = {.block_per_rank = true, .may_be_inline = true, .take = take};
