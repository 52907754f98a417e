#include "comm/shm/shm_impl.h"

static void take(tess_work *work)
{
    if (work->team->rank == work->root)
        shm_all_gather.take(work);
}

const shm_collective shm_gather = {.may_be_inline = true, .take = take};
