#include "bench/comm_ops.h"

/* ---- nccl-tests' factors: what an ideal bus would carry per byte of the algorithm's bandwidth */
static double by_ring(int W)
{
    return (double)(W - 1) / W;
}

static double by_two_rings(int W)
{
    return 2.0 * (W - 1) / W;
}

static double once(int W)
{
    (void)W;
    return 1;
}

/* ---- Traffic: every input read once, every output written once, whichever cache holds what in between */
static double all_to_each(const comm_call *c, int W)
{
    return 2.0 * W * (double)c->bytes;
}

static double all_to_one(const comm_call *c, int W)
{
    return (double)(W + 1) * (double)c->bytes;
}

static double one_to_one(const comm_call *c, int W)
{
    (void)W;
    return 2.0 * (double)c->bytes;
}

static double one_to_others(const comm_call *c, int W)
{
    return (double)W * (double)c->bytes;
}

static double nothing(const comm_call *c, int W)
{
    (void)c;
    (void)W;
    return 0;
}

static double shards_to_full(const comm_call *c, int W)
{
    (void)W;
    return (double)c->bytes * (1 + 4.0 / (double)tess_dtype_size(c->dtype));
}

static double fulls_to_shards(const comm_call *c, int W)
{
    return (double)c->bytes * (W + 4.0 / (double)tess_dtype_size(c->dtype));
}

/* ---- Calls */
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

/* Around the ring: to the next, from the one before. */
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
    {"all_reduce", "all_reduce", true, true, false, by_two_rings, all_to_each, comm_cross_all_reduce,
     TESS_TRACE_ALL_REDUCE, all_reduce},
    {"reduce_scatter", "reduce_scatter", true, true, false, by_ring, all_to_one, comm_cross_reduce_scatter,
     TESS_TRACE_REDUCE_SCATTER, reduce_scatter},
    {"reduce_scatter_pieces", "reduce_scatter", true, true, false, by_ring, fulls_to_shards, comm_cross_reduce_scatter,
     TESS_TRACE_REDUCE_SCATTER_PIECES, reduce_scatter_pieces},
    {"all_gather", "all_gather", false, true, false, by_ring, all_to_one, comm_cross_gather_all, TESS_TRACE_ALL_GATHER,
     all_gather},
    {"all_gather_pieces", "all_gather", false, true, true, by_ring, shards_to_full, comm_cross_gather_all,
     TESS_TRACE_ALL_GATHER_PIECES, all_gather_pieces},
    {"all_to_all", "all_to_all", false, true, false, by_ring, all_to_each, comm_cross_each_pair, TESS_TRACE_ALL_TO_ALL,
     all_to_all},
    {"broadcast", "broadcast", false, true, false, once, one_to_others, comm_cross_broadcast, TESS_TRACE_BROADCAST,
     broadcast},
    {"gather", "gather", false, true, false, by_ring, one_to_one, comm_cross_to_root, TESS_TRACE_GATHER, gather},
    {"scatter", "scatter", false, true, false, by_ring, one_to_one, comm_cross_from_root, TESS_TRACE_SCATTER, scatter},
    {"send_recv", "send_recv", false, true, false, once, all_to_each, comm_cross_ring, TESS_TRACE_SEND, send_recv},
    {"barrier", "barrier", false, false, false, once, nothing, comm_cross_nothing, TESS_TRACE_BARRIER, barrier},
};

const comm_op *comm_op_list(int *n)
{
    *n = sizeof(ops) / sizeof(ops[0]);
    return ops;
}

/* A float32 shard of bfloat16 pieces is, on one rank, twice the full buffer. */
size_t comm_op_buffer_bytes(size_t bytes)
{
    return 2 * bytes;
}
