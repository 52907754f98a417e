/* all_gather_pieces on one host: each rank copies the rows of all others. */
#include "comm/shm/shm_impl.h"

#include "comm/pieces.h"
#include "comm/reduce.h"

/* Converts this rank's packed elements [first, first + count) to `to` (packed); if `to` is NULL, to their final
 * place. */
static void convert_own(tess_work *work, size_t first, size_t count, uint8_t *to)
{
    size_t in_element = tess_dtype_size(work->in_dtype), element = shm_element(work);
    tess_byte_run_cursor cursor = {0};
    tess_byte_run run;
    while (tess_pieces_next(work->pieces.pieces, work->pieces.n, work->team->size, work->team->rank, first, count,
                            &cursor, &run)) {
        uint8_t *at = to != NULL ? to + (run.packed - first) * element : work->out + run.full * element;
        tess_work_note(work, tess_convert_values(tess_work_stream(work), work->in + run.shard * in_element,
                                                 work->in_dtype, at, work->dtype, run.count));
    }
}

/* If all ranks share one output buffer, each rank writes its rows directly into it. All rows are there once all
 * ranks have come. */
static void post(tess_work *work, tess_post *post)
{
    if (!tess_memory_is_shared(work->team->runtime, work->out, work->out_bytes)) {
        post->out_offset = CONTROL_PRIVATE;
        return;
    }
    convert_own(work, 0, SIZE_MAX / 2, NULL);
}

static tess_status meet(tess_work *work)
{
    uint64_t place = shm_post(work, 0)->out_offset;
    bool one_place = place != CONTROL_PRIVATE && tess_team_is_local(work->team);
    for (int r = 1; r < work->team->size; r++)
        one_place = one_place && shm_post(work, r)->out_offset == place;
    if (one_place)
        shm_of(work)->path = SHM_NOTHING;
    work->n = tess_pieces_most(work->pieces.pieces, work->pieces.n, work->team->size);
    return TESS_OK;
}

static void show(tess_work *work, uint8_t *to)
{
    convert_own(work, shm_of(work)->first, shm_of(work)->count, to);
}

static void take(tess_work *work)
{
    size_t element = shm_element(work);
    convert_own(work, shm_of(work)->first, shm_of(work)->count, NULL);
    for (int r = 0; r < work->team->size; r++) {
        if (r == work->team->rank)
            continue;
        const uint8_t *from = shm_peer(work, r, 0);
        tess_byte_run_cursor cursor = {0};
        tess_byte_run run;
        while (tess_pieces_next(work->pieces.pieces, work->pieces.n, work->team->size, r, shm_of(work)->first,
                                shm_of(work)->count, &cursor, &run))
            memcpy(work->out + run.full * element, from + (run.packed - shm_of(work)->first) * element,
                   run.count * element);
    }
}

const shm_collective shm_all_gather_pieces = {
    .never_direct = true, .post = post, .meet = meet, .show = show, .take = take};
