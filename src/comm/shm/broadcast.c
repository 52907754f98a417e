#include "comm/shm/shm_impl.h"

static void take(tess_work *work)
{
    size_t element = shm_element(work);
    if (work->team->rank != work->root)
        shm_take_block(work, work->out + shm_of(work)->first * element, work->root, 0);
}

const shm_collective shm_broadcast = {.root_shows = true, .may_be_inline = true, .take = take};
