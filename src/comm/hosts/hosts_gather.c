/* Operations in which all (or many) ranks copy what one rank shows: all_gather, broadcast, and the second half of a
 * large all_reduce.
 *
 * A rank's area holds its own block's elements of the round, then those of the ranks that it handles. A rank that is
 * alone on its host and has a contiguous block needs no area: messages go from buffer to buffer. */
#include <string.h>

#include "comm/hosts/hosts_impl.h"

static bool in_one_piece(const tess_work *work)
{
    return work->fp.kind != TESS_TRACE_ALL_GATHER_PIECES;
}

/* Returns the place of a rank's block in the result, if blocks are contiguous. */
static uint8_t *place_of(const tess_work *work, int rank)
{
    size_t begin = 0, element = tess_dtype_size(work->dtype);
    if (work->fp.kind == TESS_TRACE_ALL_REDUCE)
        hosts_part(work, rank, &begin);
    else if (work->fp.kind != TESS_TRACE_BROADCAST)
        begin = (size_t)rank * work->n;
    return work->out + begin * element;
}

/* Returns the block that this rank shows, if it is contiguous. The parts of an all_reduce are where the first half
 * stored them. */
static const uint8_t *own_block(const tess_work *work)
{
    return work->fp.kind == TESS_TRACE_ALL_REDUCE ? place_of(work, work->team->rank) : work->in;
}

static uint8_t *slot_of(const tess_work *work, uint64_t round, int rank)
{
    const comm_hosts *h = hosts_of(work->team);
    const hosts_seat *seat = &h->rounds->way->seats[rank];
    return hosts_area(h, seat->holder, round) +
           (size_t)seat->slot * h->rounds->per_round * tess_dtype_size(work->dtype);
}

static bool alone(const tess_work *work)
{
    const comm_hosts *h = hosts_of(work->team);
    return hosts_n_local(h, h->mine) == 1 && in_one_piece(work);
}

static void pack(tess_work *work, size_t first, size_t count, uint8_t *to)
{
    size_t element = tess_dtype_size(work->dtype);
    if (in_one_piece(work)) {
        memcpy(to, own_block(work) + first * element, count * element);
        return;
    }
    tess_byte_run_cursor cursor = {0};
    tess_byte_run run;
    while (tess_pieces_next(work->pieces.pieces, work->pieces.n, work->team->size, work->team->rank, first, count,
                            &cursor, &run))
        tess_work_note(work, tess_convert_values(tess_work_stream(work),
                                                 work->in + run.shard * tess_dtype_size(work->in_dtype), work->in_dtype,
                                                 to + (run.packed - first) * element, work->dtype, run.count));
}

static void unpack(tess_work *work, int rank, size_t first, size_t count, const uint8_t *from)
{
    size_t element = tess_dtype_size(work->dtype);
    if (in_one_piece(work)) {
        tess_work_note(work, tess_copy(tess_work_stream(work), place_of(work, rank) + first * element, from,
                                       count * element, work->out_bytes >= REDUCE_STREAM_BYTES));
        return;
    }
    tess_byte_run_cursor cursor = {0};
    tess_byte_run run;
    while (tess_pieces_next(work->pieces.pieces, work->pieces.n, work->team->size, rank, first, count, &cursor, &run))
        memcpy(work->out + run.full * element, from + (run.packed - first) * element, run.count * element);
}

static tess_status receive(tess_work *work, uint64_t round)
{
    const hosts_way *way = hosts_of(work->team)->rounds->way;
    size_t element = tess_dtype_size(work->dtype);
    for (int k = 0; k < way->n_sources; k++) {
        int rank = way->sources[k];
        size_t first, count = hosts_span(work, round, hosts_block_of(work, rank), &first);
        uint8_t *to = alone(work) ? place_of(work, rank) + first * element : slot_of(work, round, rank);
        TESS_TRY(hosts_receive(work, round, to, count * element, rank));
    }
    return TESS_OK;
}

static tess_status show(tess_work *work, uint64_t round)
{
    const comm_hosts *h = hosts_of(work->team);
    int me = work->team->rank;
    size_t first, count = hosts_span(work, round, hosts_block_of(work, me), &first),
                  element = tess_dtype_size(work->dtype);
    const uint8_t *from = slot_of(work, round, me);
    if (count == 0)
        return TESS_OK;
    if (alone(work))
        from = own_block(work) + first * element;
    else
        pack(work, first, count, slot_of(work, round, me));
    for (int host = 0; host < h->n_hosts; host++)
        if (host != h->mine)
            TESS_TRY(hosts_send(work, round, from, count * element, hosts_handler(h, h->rounds->way, host, me)));
    return TESS_OK;
}

static void take(tess_work *work, uint64_t round)
{
    const tess_team *team = work->team;
    for (int rank = 0; rank < team->size; rank++) {
        size_t first, count = hosts_span(work, round, hosts_block_of(work, rank), &first);
        bool own = rank == team->rank, there = in_one_piece(work) && own && own_block(work) == place_of(work, rank);
        if (count == 0 || there || (alone(work) && !own))
            continue;
        if (own && in_one_piece(work))
            unpack(work, rank, first, count, own_block(work) + first * tess_dtype_size(work->dtype));
        else
            unpack(work, rank, first, count, slot_of(work, round, rank));
    }
}

static hosts_pass pass_over(const tess_work *work, size_t block)
{
    size_t slots = 1 + (size_t)hosts_of(work->team)->rounds->way->most_sources;
    return (hosts_pass){.block = block,
                        .element = slots * tess_dtype_size(work->dtype),
                        .receive = receive,
                        .show = show,
                        .take = take};
}

hosts_pass hosts_pass_of_parts(tess_work *work)
{
    size_t begin;
    return pass_over(work, hosts_part(work, 0, &begin));
}

static uint64_t out_offset(const tess_work *work, int rank)
{
    return tess_control_post(work->team->control, work->team->size, work->fp.sequence, rank)->out_offset;
}

/* Whether, on every host, all ranks have passed one shared buffer. Then rows of ranks on other hosts are received
 * directly into it. */
static bool all_share(const tess_work *work)
{
    const comm_hosts *h = hosts_of(work->team);
    bool all = work->fp.kind == TESS_TRACE_ALL_GATHER_PIECES;
    for (int r = 0; r < work->team->size && all; r++) {
        int first = h->ranks[h->first[h->members[r].host]];
        all = out_offset(work, r) != CONTROL_PRIVATE && out_offset(work, r) == out_offset(work, first);
    }
    return all;
}

void hosts_plan_gather(tess_work *work)
{
    hosts_rounds *r = hosts_of(work->team)->rounds;
    if (all_share(work)) {
        hosts_plan_straight(work);
        return;
    }
    r->n_passes = 1;
    r->pass[0] = pass_over(work, work->n);
}
