/* The table of operations that `tessera bench comm` measures, with the bytes that each must move. */
#include "bench/comm/comm_job.h"

/* Bytes that all ranks together must read and write, in multiples of the size: every input once, and every output
 * once. */
#define ALL_TO_EACH .per_rank = 2
#define ALL_TO_ONE .per_rank = 1, .once = 1
#define ONE_TO_ONE .once = 2
#define ONE_TO_OTHERS .per_rank = 1
#define SHARDS_TO_FULL .once = 1, .shards = 1
#define FULLS_TO_SHARDS .per_rank = 1, .shards = 1

/* ---- Calls ---- */

static size_t elements(const comm_call *c)
{
    return c->bytes / tess_dtype_size(c->dtype);
}

static size_t block(const comm_call *c)
{
    return elements(c) / (size_t)tess_team_size(c->team);
}

static tess_status all_reduce(const comm_call *c)
{
    return tess_all_reduce(c->team, c->in, c->out, elements(c), c->dtype, TESS_SUM, NULL);
}

static tess_status reduce_scatter(const comm_call *c)
{
    return tess_reduce_scatter(c->team, c->in, c->out, block(c), c->dtype, TESS_SUM, NULL);
}

static tess_status all_gather(const comm_call *c)
{
    return tess_all_gather(c->team, c->in, c->out, block(c), c->dtype, NULL);
}

static tess_status all_to_all(const comm_call *c)
{
    return tess_all_to_all(c->team, c->in, c->out, block(c), c->dtype, NULL);
}

static tess_status broadcast(const comm_call *c)
{
    return tess_broadcast(c->team, c->in, elements(c), c->dtype, 0, NULL);
}

static tess_status gather(const comm_call *c)
{
    return tess_gather(c->team, c->in, c->out, block(c), c->dtype, 0, NULL);
}

static tess_status scatter(const comm_call *c)
{
    return tess_scatter(c->team, c->in, c->out, block(c), c->dtype, 0, NULL);
}

/* Passes data around a ring: sends to the next rank, and receives from the previous one. */
static tess_status send_recv(const comm_call *c)
{
    int rank = tess_team_rank(c->team), W = tess_team_size(c->team);
    tess_work *sent, *received;
    TESS_TRY(tess_send(c->team, c->in, elements(c), c->dtype, (rank + 1) % W, 0, &sent));
    TESS_TRY(tess_recv(c->team, c->out, elements(c), c->dtype, (rank + W - 1) % W, 0, &received));
    TESS_TRY(tess_work_wait(&received, 0));
    return tess_work_wait(&sent, 0);
}

static tess_status barrier(const comm_call *c)
{
    return tess_barrier(c->team, NULL);
}

static tess_piece whole(const comm_call *c)
{
    enum { ROW = 16 };
    return (tess_piece){.n_rows = elements(c) / ROW, .row = ROW};
}

static tess_status all_gather_pieces(const comm_call *c)
{
    tess_piece piece = whole(c);
    return tess_all_gather_pieces(c->team, c->in, TESS_F32, c->out, c->dtype, &piece, 1, NULL);
}

static tess_status reduce_scatter_pieces(const comm_call *c)
{
    tess_piece piece = whole(c);
    return tess_reduce_scatter_pieces(c->team, c->in, c->dtype, c->out, &piece, 1, false, NULL);
}

static const comm_op ops[] = {
    {"all_reduce", "all_reduce", all_reduce, comm_cross_all_reduce, TESS_TRACE_ALL_REDUCE, .reduces = true,
     .sized = true, .rings = 2, ALL_TO_EACH},
    {"reduce_scatter", "reduce_scatter", reduce_scatter, comm_cross_reduce_scatter, TESS_TRACE_REDUCE_SCATTER,
     .reduces = true, .sized = true, .rings = 1, ALL_TO_ONE},
    {"reduce_scatter_pieces", "reduce_scatter", reduce_scatter_pieces, comm_cross_reduce_scatter,
     TESS_TRACE_REDUCE_SCATTER_PIECES, .reduces = true, .sized = true, .rings = 1, FULLS_TO_SHARDS},
    {"all_gather", "all_gather", all_gather, comm_cross_gather_all, TESS_TRACE_ALL_GATHER, .sized = true, .rings = 1,
     ALL_TO_ONE},
    {"all_gather_pieces", "all_gather", all_gather_pieces, comm_cross_gather_all, TESS_TRACE_ALL_GATHER_PIECES,
     .sized = true, .shares = true, .rings = 1, SHARDS_TO_FULL},
    {"all_to_all", "all_to_all", all_to_all, comm_cross_each_pair, TESS_TRACE_ALL_TO_ALL, .sized = true, .rings = 1,
     ALL_TO_EACH},
    {"broadcast", "broadcast", broadcast, comm_cross_broadcast, TESS_TRACE_BROADCAST, .sized = true, ONE_TO_OTHERS},
    {"gather", "gather", gather, comm_cross_to_root, TESS_TRACE_GATHER, .sized = true, .rings = 1, ONE_TO_ONE},
    {"scatter", "scatter", scatter, comm_cross_from_root, TESS_TRACE_SCATTER, .sized = true, .rings = 1, ONE_TO_ONE},
    {"send_recv", "send_recv", send_recv, comm_cross_ring, TESS_TRACE_SEND, .sized = true, ALL_TO_EACH},
    {"barrier", "barrier", barrier, comm_cross_nothing, TESS_TRACE_BARRIER, .sized = false},
};

const comm_op *comm_op_list(int *n)
{
    *n = sizeof(ops) / sizeof(ops[0]);
    return ops;
}

double comm_op_bus_factor(const comm_op *op, int ranks)
{
    return op->rings > 0 ? (double)op->rings * (ranks - 1) / ranks : 1;
}

double comm_op_traffic(const comm_op *op, tess_dtype dtype, size_t bytes, int ranks)
{
    double shards = op->shards * 4.0 / (double)tess_dtype_size(dtype);
    return (double)bytes * (op->per_rank * ranks + op->once + shards);
}
