#include "comm/shm/shm_impl.h"

static void take(tess_work *work)
{
    size_t element = shm_element(work);
    memcpy(work->out + work->first * element, shm_peer(work, work->root, work->team->rank), work->count * element);
}

const shm_collective shm_scatter = {.block_per_rank = true, .root_shows = true, .may_be_inline = true, .take = take};
