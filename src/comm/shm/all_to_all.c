#include "comm/shm/shm_impl.h"

static void take(tess_work *work)
{
    size_t element = shm_element(work);
    for (int r = 0; r < work->team->size; r++)
        shm_take_block(work, work->out + ((size_t)r * work->n + shm_of(work)->first) * element, r, work->team->rank);
}

const shm_collective shm_all_to_all = {.block_per_rank = true, .may_be_inline = true, .take = take};
