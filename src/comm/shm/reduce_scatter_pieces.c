/* reduce_scatter_pieces on one host: each rank sums its own rows over the buffers of all. */
#include "comm/shm/shm_impl.h"

#include "comm/pieces.h"
#include "comm/reduce.h"

static tess_status meet(tess_work *work)
{
    work->n = tess_pieces_most(work->pieces.pieces, work->pieces.n, work->team->size);
    return TESS_OK;
}

/* Shows block r: the rows that rank r owns, packed. */
static void show(tess_work *work, uint8_t *to)
{
    size_t element = shm_element(work);
    for (int r = 0; r < work->team->size; r++) {
        if (r == work->team->rank)
            continue; /* our own rows are read in place */
        tess_byte_run_cursor cursor = {0};
        tess_byte_run run;
        while (tess_pieces_next(work->pieces.pieces, work->pieces.n, work->team->size, r, shm_of(work)->first,
                                shm_of(work)->count, &cursor, &run))
            memcpy(to + (size_t)r * shm_stride(work) + (run.packed - shm_of(work)->first) * element,
                   work->in + run.full * element, run.count * element);
    }
}

static void take(tess_work *work)
{
    size_t element = shm_element(work);
    int W = work->team->size, me = work->team->rank, n_steps;
    tess_leaf_step sum;
    const tess_leaf_step *steps = tess_work_steps(work, W, &sum, &n_steps);
    tess_byte_run_cursor cursor = {0};
    tess_byte_run run;
    while (tess_pieces_next(work->pieces.pieces, work->pieces.n, W, me, shm_of(work)->first, shm_of(work)->count,
                            &cursor, &run)) {
        const void **rows = work->team->lists.rows;
        for (int r = 0; r < W; r++)
            rows[r] = r == me ? work->in + run.full * element
                      : shm_of(work)->path == SHM_DIRECT
                          ? shm_in(work, r) + run.full * element
                          : shm_peer(work, r, me) + (run.packed - shm_of(work)->first) * element;
        bool finite = true;
        tess_work_note(work, tess_leaf_run(tess_work_stream(work), steps, n_steps, rows, work->team->lists.moved, W,
                                           work->in_dtype, run.shard, run.count, shm_streams(work->n * sizeof(float)),
                                           &finite));
        if (!finite)
            tess_bad_addend_look(work, rows, &run, cursor.piece - 1);
    }
}

const shm_collective shm_reduce_scatter_pieces = {
    .block_per_rank = true, .never_reached = true, .meet = meet, .show = show, .take = take};
