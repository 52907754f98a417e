#include "comm/shm/shm_impl.h"

#include "comm/reduce.h"

/* Small: everybody reduces everything. Large: each rank reduces its part of the round (fold), then all copy the parts
 * (take). The order of summation is the same tree, so are the bits. */

enum { RESULT_AREA = 2 };

static void part_of(const tess_work *work, int rank, size_t *begin, size_t *count)
{
    size_t part = (work->count + (size_t)work->team->size - 1) / (size_t)work->team->size;
    part = (part + 63) / 64 * 64;
    *begin = (size_t)rank * part < work->count ? (size_t)rank * part : work->count;
    *count = work->count - *begin < part ? work->count - *begin : part;
}

static uint8_t *result_of(const tess_work *work, int rank)
{
    if (work->path == SHM_DIRECT)
        return work->team->runtime->job.base + shm_post(work, rank)->out_offset;
    return shm_stage(work, rank, RESULT_AREA);
}

/* In place is fine: of a rank's buffer, part r is read by rank r alone until all are folded. */
static void fold(tess_work *work)
{
    const void *parts[JOB_MAX_RANKS];
    size_t begin, count, element = shm_element(work);
    part_of(work, work->team->rank, &begin, &count);
    for (int r = 0; r < work->team->size; r++)
        parts[r] = shm_peer(work, r, 0) + begin * element;
    tess_reduce(parts, work->team->size, work->dtype, work->op, result_of(work, work->team->rank) + begin * element,
                count);
}

static void take(tess_work *work)
{
    size_t element = shm_element(work);
    if (work->path == SHM_INLINE) {
        const void *all[JOB_MAX_RANKS];
        for (int r = 0; r < work->team->size; r++)
            all[r] = shm_peer(work, r, 0);
        tess_reduce(all, work->team->size, work->dtype, work->op, work->out, work->n);
        return;
    }
    for (int r = 0; r < work->team->size; r++) {
        size_t begin, count;
        part_of(work, r, &begin, &count);
        uint8_t *to = work->out + (work->first + begin) * element;
        const uint8_t *from = result_of(work, r) + begin * element;
        if (to != from)
            memcpy(to, from, count * element);
    }
}

const shm_collective shm_all_reduce = {.may_be_inline = true, .fold = fold, .take = take};
