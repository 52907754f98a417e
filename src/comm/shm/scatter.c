#include "comm/shm/shm_impl.h"

static void take(tess_work *work)
{
    size_t element = shm_element(work);
    shm_take_block(work, work->out + shm_of(work)->first * element, work->root, work->team->rank);
}

const shm_collective shm_scatter = {.block_per_rank = true, .root_shows = true, .may_be_inline = true, .take = take};
