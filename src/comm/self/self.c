/* Backend for a team of one rank. Every collective is a copy, which is checked, numbered and recorded like any
 * other. */
#include <string.h>

#include "comm/p2p/channel.h"
#include "comm/pieces.h"
#include "comm/reduce.h"

static void all_gather_pieces(tess_work *work)
{
    tess_byte_run_cursor cursor = {0};
    tess_byte_run run;
    while (tess_pieces_next(work->pieces.pieces, work->pieces.n, 1, 0, 0, SIZE_MAX / 2, &cursor, &run))
        tess_work_note(work, tess_convert_values(tess_work_stream(work),
                                                 work->in + run.shard * tess_dtype_size(work->in_dtype), work->in_dtype,
                                                 work->out + run.full * tess_dtype_size(work->dtype), work->dtype,
                                                 run.count));
}

static void reduce_scatter_pieces(tess_work *work)
{
    int n_steps;
    tess_leaf_step sum;
    const tess_leaf_step *steps = tess_work_steps(work, 1, &sum, &n_steps);
    tess_byte_run_cursor cursor = {0};
    tess_byte_run run;
    while (tess_pieces_next(work->pieces.pieces, work->pieces.n, 1, 0, 0, SIZE_MAX / 2, &cursor, &run)) {
        const void *moved, *rows = work->in + run.full * tess_dtype_size(work->in_dtype);
        tess_work_note(work,
                       tess_leaf_run(tess_work_stream(work), steps, n_steps, &rows, &moved, 1, work->in_dtype,
                                     run.shard, run.count, run.count * sizeof(float) >= REDUCE_STREAM_BYTES, NULL));
    }
}

static void all_to_all_v(tess_work *work)
{
    size_t sends = work->counts.in_counts[0], expects = work->counts.out_counts[0],
           element = tess_dtype_size(work->dtype);
    if (sends != expects)
        work->status = TESS_FAIL(TESS_E_MISMATCH, "all_to_all_v: rank %d sends %zu elements to itself, but expects %zu",
                                 work->team->ranks[0], sends, expects);
    else if (sends > 0)
        memmove(work->out + work->counts.out_offsets[0] * element, work->in + work->counts.in_offsets[0] * element,
                sends * element);
}

static void start(tess_work *work)
{
    switch (work->fp.kind) {
    case TESS_TRACE_BARRIER:
    case TESS_TRACE_BROADCAST:
        break;
    case TESS_TRACE_ALL_GATHER_PIECES:
        all_gather_pieces(work);
        break;
    case TESS_TRACE_REDUCE_SCATTER_PIECES:
        reduce_scatter_pieces(work);
        break;
    case TESS_TRACE_ALL_TO_ALL_V:
        all_to_all_v(work);
        break;
    default: /* all other operations move one block of n elements; the reduction of a single value is that value */
        if (work->n > 0 && work->out != work->in)
            memmove(work->out, work->in, work->n * tess_dtype_size(work->dtype));
    }
}

static bool advance(TESS_UNUSED tess_work *work)
{
    return true;
}

static int missing(TESS_UNUSED const tess_work *work, int *ranks)
{
    ranks[0] = 0;
    return 1; /* only a message can be incomplete, and it waits for this rank */
}

const comm_backend tess_backend_self = {.name = "self",
                                        .work_bytes = sizeof(channel_work),
                                        .start = start,
                                        .advance = advance,
                                        .missing = missing,
                                        .link = tess_channel_link};
