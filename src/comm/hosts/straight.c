/* Operations that move data from buffer to buffer in one round: all_to_all, all_to_all_v, gather and scatter,
 * because no two ranks of a host need the same bytes. Also moves rows of pieces if a host shares one buffer. */
#include <string.h>

#include "comm/hosts/hosts_impl.h"

typedef struct straight_block {
    size_t offset, bytes; /* offset in the buffer */
} straight_block;

/* Finds the block that is sent to `rank` (in the buffer `in`), or received from it (in `out`). */
static straight_block block_of(const tess_work *work, int rank, bool sent)
{
    const comm_counts *c = &work->counts;
    size_t element = tess_dtype_size(work->dtype), bytes = work->n * element;
    bool rooted = work->fp.kind == TESS_TRACE_GATHER || work->fp.kind == TESS_TRACE_SCATTER;
    if (work->fp.kind == TESS_TRACE_ALL_TO_ALL_V)
        return sent ? (straight_block){c->in_offsets[rank] * element, c->in_counts[rank] * element}
                    : (straight_block){c->out_offsets[rank] * element, c->out_counts[rank] * element};
    /* Each sender of a gather, and each receiver of a scatter, has a single block: its peer is the root. */
    if (rooted && sent == (work->fp.kind == TESS_TRACE_GATHER))
        return (straight_block){0, rank == work->root ? bytes : 0};
    return (straight_block){(size_t)rank * bytes, !rooted || work->team->rank == work->root ? bytes : 0};
}

static tess_status receive(tess_work *work, uint64_t round)
{
    for (int rank = 0; rank < work->team->size; rank++) {
        straight_block b = block_of(work, rank, false);
        if (rank != work->team->rank)
            TESS_TRY(hosts_receive(work, round, work->out + b.offset, b.bytes, rank));
    }
    return TESS_OK;
}

static tess_status show(tess_work *work, uint64_t round)
{
    for (int rank = 0; rank < work->team->size; rank++) {
        straight_block b = block_of(work, rank, true);
        if (rank != work->team->rank)
            TESS_TRY(hosts_send(work, round, work->in + b.offset, b.bytes, rank));
    }
    return TESS_OK;
}

static void take(tess_work *work, TESS_UNUSED uint64_t round)
{
    int me = work->team->rank;
    straight_block from = block_of(work, me, true), to = block_of(work, me, false);
    if (to.bytes > 0 && work->out + to.offset != work->in + from.offset)
        memcpy(work->out + to.offset, work->in + from.offset, to.bytes);
}

/* ---- Rows into a shared buffer: each rank has written its own before it came ---- */
static tess_status receive_rows(tess_work *work, uint64_t round)
{
    const hosts_way *way = hosts_of(work->team)->rounds->way;
    size_t element = tess_dtype_size(work->dtype);
    for (int k = 0; k < way->n_sources; k++) {
        tess_byte_run_cursor cursor = {0};
        tess_byte_run run;
        while (tess_pieces_next(work->pieces.pieces, work->pieces.n, work->team->size, way->sources[k], 0, SIZE_MAX / 2,
                                &cursor, &run))
            TESS_TRY(hosts_receive(work, round, work->out + run.full * element, run.count * element, way->sources[k]));
    }
    return TESS_OK;
}

static tess_status show_rows(tess_work *work, uint64_t round)
{
    const comm_hosts *h = hosts_of(work->team);
    size_t element = tess_dtype_size(work->dtype);
    tess_byte_run_cursor cursor = {0};
    tess_byte_run run;
    while (tess_pieces_next(work->pieces.pieces, work->pieces.n, work->team->size, work->team->rank, 0, SIZE_MAX / 2,
                            &cursor, &run))
        for (int host = 0; host < h->n_hosts; host++)
            if (host != h->mine)
                TESS_TRY(hosts_send(work, round, work->out + run.full * element, run.count * element,
                                    hosts_handler(h, h->rounds->way, host, work->team->rank)));
    return TESS_OK;
}

static void take_nothing(TESS_UNUSED tess_work *work, TESS_UNUSED uint64_t round)
{
}

void hosts_plan_straight(tess_work *work)
{
    hosts_rounds *r = hosts_of(work->team)->rounds;
    bool rows = work->fp.kind == TESS_TRACE_ALL_GATHER_PIECES;
    r->n_passes = 1;
    r->pass[0] = (hosts_pass){.block = work->n,
                              .receive = rows ? receive_rows : receive,
                              .show = rows ? show_rows : show,
                              .take = rows ? take_nothing : take};
}
