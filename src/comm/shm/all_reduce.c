/* all_reduce on one host: each rank sums a part of the buffer, then copies the parts of the others. */
#include "comm/shm/shm_impl.h"

#include "comm/reduce.h"

/* There are three paths, all with the same summation tree and therefore the same bits.
 * - Small: every rank reduces everything.
 * - Large, in reachable buffers: each rank reduces its part into the buffers of all ranks, so every byte is read
 * once and written once.
 * - Large otherwise: in rounds. Each rank reduces its part into its stage (fold), then all ranks copy the parts
 * (take). */

enum { RESULT_AREA = 2 };

static void part_of(const tess_work *work, int rank, size_t *begin, size_t *count)
{
    size_t part = (shm_of(work)->count + (size_t)work->team->size - 1) / (size_t)work->team->size;
    part = (part + 63) / 64 * 64;
    *begin = (size_t)rank * part < shm_of(work)->count ? (size_t)rank * part : shm_of(work)->count;
    *count = shm_of(work)->count - *begin < part ? shm_of(work)->count - *begin : part;
}

/* Shows everything except this rank's own part, which no peer reads. */
static void show(tess_work *work, uint8_t *to)
{
    size_t begin, count, element = shm_element(work), end;
    const uint8_t *from = work->in + shm_of(work)->first * element;
    if (shm_of(work)->path == SHM_INLINE) {
        memcpy(to, from, shm_of(work)->count * element);
        return;
    }
    part_of(work, work->team->rank, &begin, &count);
    end = begin + count;
    memcpy(to, from, begin * element);
    memcpy(to + end * element, from + end * element, (shm_of(work)->count - end) * element);
}

/* Sums this rank's part. That may be in place, because only rank r reads and writes part r of any buffer. */
static void fold(tess_work *work)
{
    const void **parts = work->team->lists.rows;
    void **results = work->team->lists.results;
    int W = work->team->size, n_results = 0;
    size_t begin, count, element = shm_element(work);
    part_of(work, work->team->rank, &begin, &count);
    if (shm_of(work)->path == SHM_REACHED) {
        shm_reach_reduce(work, begin, count, work->out + begin * element);
        return;
    }
    for (int r = 0; r < W; r++)
        parts[r] = shm_peer(work, r, 0) + begin * element;
    if (shm_of(work)->path == SHM_STAGED)
        results[n_results++] = shm_stage(work, work->team->rank, RESULT_AREA) + begin * element;
    else
        for (int r = 0; r < W; r++)
            results[n_results++] = work->team->runtime->job.base + shm_post(work, r)->out_offset + begin * element;
    tess_work_note(work, tess_reduce(tess_work_stream(work), parts, W, work->dtype, work->op, results, n_results, count,
                                     shm_of(work)->path == SHM_DIRECT && shm_streams(work->out_bytes)));
}

static void take(tess_work *work)
{
    size_t element = shm_element(work);
    if (shm_of(work)->path == SHM_INLINE) {
        const void **all = work->team->lists.rows;
        for (int r = 0; r < work->team->size; r++)
            all[r] = shm_peer(work, r, 0);
        void *to = work->out;
        tess_work_note(work, tess_reduce(tess_work_stream(work), all, work->team->size, work->dtype, work->op, &to, 1,
                                         work->n, false));
        return;
    }
    for (int r = 0; r < work->team->size; r++) {
        size_t begin, count;
        part_of(work, r, &begin, &count);
        if (shm_of(work)->path == SHM_REACHED) {
            if (r != work->team->rank)
                shm_reach(work, work->out + begin * element, r, shm_post(work, r)->out_address + begin * element,
                          count * element);
            continue;
        }
        tess_work_note(work, tess_copy(tess_work_stream(work), work->out + (shm_of(work)->first + begin) * element,
                                       shm_stage(work, r, RESULT_AREA) + begin * element, count * element,
                                       shm_streams(work->out_bytes)));
    }
}

const shm_collective shm_all_reduce = {.may_be_inline = true, .show = show, .fold = fold, .take = take};
