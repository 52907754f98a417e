/* Sends and receives the messages of a round, and divides an operation's data among ranks. */
#include "base/mem/make_room.h"
#include "comm/hosts/hosts_impl.h"

size_t hosts_block_of(const tess_work *work, int rank)
{
    size_t begin;
    switch (work->fp.kind) {
    case TESS_TRACE_BROADCAST:
        return rank == work->root ? work->n : 0;
    case TESS_TRACE_ALL_REDUCE:
        return hosts_part(work, rank, &begin);
    case TESS_TRACE_ALL_GATHER_PIECES:
    case TESS_TRACE_REDUCE_SCATTER_PIECES:
        return tess_pieces_owned(work->pieces.pieces, work->pieces.n, work->team->size, rank);
    default:
        return work->n;
    }
}

bool hosts_next_run(const tess_work *work, int rank, size_t first, size_t count, tess_byte_run_cursor *cursor,
                    tess_byte_run *run)
{
    if (work->pieces.pieces != NULL)
        return tess_pieces_next(work->pieces.pieces, work->pieces.n, work->team->size, rank, first, count, cursor, run);
    if (cursor->piece++ > 0 || count == 0)
        return false;
    bool parts = work->fp.kind == TESS_TRACE_ALL_REDUCE;
    size_t begin = (size_t)rank * work->n;
    if (parts)
        hosts_part(work, rank, &begin);
    *run =
        (tess_byte_run){.full = begin + first, .packed = first, .shard = parts ? begin + first : first, .count = count};
    return true;
}

static tess_status add_message(tess_work *work, hosts_batch *batch, int peer, wire_request *request)
{
    tess_status status =
        tess_mem_make_room(work->team->runtime->mem, TESS_POOL_MISC, batch->n, sizeof(batch->messages[0]),
                           "messages of a round", &batch->room, &batch->messages);
    if (status != TESS_OK) {
        tess_wire_cancel(&request);
        return status;
    }
    batch->messages[batch->n].request = request;
    batch->messages[batch->n++].peer = peer;
    return TESS_OK;
}

tess_status hosts_send(tess_work *work, uint64_t round, const void *data, size_t bytes, int to)
{
    comm_hosts *h = hosts_of(work->team);
    wire_request *request = NULL;
    if (bytes == 0)
        return TESS_OK;
    TESS_TRY(tess_wire_send(h->group, data, bytes, to, hosts_tag(work, HOSTS_TAG_DATA), &request));
    return add_message(work, &h->rounds->sends[round % HOSTS_AREAS], to, request);
}

tess_status hosts_receive(tess_work *work, uint64_t round, void *data, size_t bytes, int from)
{
    comm_hosts *h = hosts_of(work->team);
    wire_request *request = NULL;
    if (bytes == 0)
        return TESS_OK;
    TESS_TRY(tess_wire_recv(h->group, data, bytes, from, hosts_tag(work, HOSTS_TAG_DATA), &request));
    return add_message(work, &h->rounds->receives[round % HOSTS_AREAS], from, request);
}

tess_status hosts_test_batch(hosts_batch *batch, bool *done)
{
    while (batch->n_done < batch->n) {
        TESS_TRY(tess_wire_test(&batch->messages[batch->n_done].request, done));
        if (!*done)
            return TESS_OK;
        batch->n_done++;
    }
    batch->n = batch->n_done = 0;
    *done = true;
    return TESS_OK;
}
