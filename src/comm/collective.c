/* The public collectives: arguments checked, fingerprint filled, handed to the team's backend. */
#include "comm/comm_impl.h"
#include "comm/pieces.h"
#include "comm/reduce.h"

#define SITE __builtin_return_address(0)

static tess_status check(const tess_team *team, const char *call, tess_dtype dtype, size_t n, size_t *bytes)
{
    TESS_CHECK(team != NULL, TESS_E_INVALID, "%s: there is no team", call);
    TESS_CHECK((unsigned)dtype < TESS_DTYPE_COUNT, TESS_E_INVALID, "%s: %d is no dtype", call, (int)dtype);
    TESS_CHECK(!__builtin_mul_overflow(n, tess_dtype_size(dtype), bytes) && *bytes <= SIZE_MAX / 4 / (size_t)team->size,
               TESS_E_INVALID, "%s: %zu elements of %s do not fit in memory", call, n, tess_dtype_name(dtype));
    return TESS_OK;
}

static tess_status check_buffer(const char *call, const char *which, const void *buffer, size_t bytes)
{
    TESS_CHECK(buffer != NULL || bytes == 0, TESS_E_INVALID, "%s: `%s` is NULL, but has %zu bytes", call, which, bytes);
    return TESS_OK;
}

static tess_status check_root(const tess_team *team, const char *call, int root)
{
    TESS_CHECK(root >= 0 && root < team->size, TESS_E_INVALID, "%s: rank %d is not in team '%s' of %d ranks", call,
               root, team->name, team->size);
    return TESS_OK;
}

static tess_status check_op(const char *call, tess_op op)
{
    TESS_CHECK((unsigned)op <= TESS_AVG, TESS_E_INVALID, "%s: %d is no reduction", call, (int)op);
    return TESS_OK;
}

static tess_status check_apart(const char *call, const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    uintptr_t p = (uintptr_t)a, q = (uintptr_t)b;
    TESS_CHECK(a_bytes == 0 || b_bytes == 0 || p + a_bytes <= q || q + b_bytes <= p, TESS_E_INVALID,
               "%s: `in` and `out` overlap", call);
    return TESS_OK;
}

/* Or `in` is this rank's block of `out`. */
static tess_status check_own_block(const char *call, const tess_team *team, const void *in, size_t bytes,
                                   const void *out, size_t all)
{
    if (out != NULL && in == (const uint8_t *)out + (size_t)team->rank * bytes)
        return TESS_OK;
    return check_apart(call, in, bytes, out, all);
}

/* What a collective asks; submit fills a work with it. */
typedef struct request {
    tess_trace_op kind;
    const void *in;
    void *out;
    size_t in_bytes, out_bytes, n;
    tess_dtype dtype;
    tess_op op;
    int root;
    uint64_t tag;
} request;

static tess_status submit(tess_team *team, const request *q, const void *site, tess_work **handle)
{
    tess_work *work;
    TESS_TRY(tess_work_begin(team, q->kind, site, &work));
    work->in = q->in;
    work->out = q->out;
    work->in_bytes = q->in_bytes;
    work->out_bytes = q->out_bytes;
    work->n = q->n;
    work->dtype = work->in_dtype = q->dtype;
    work->op = q->op;
    work->root = q->root;
    work->fp.count = q->n;
    work->fp.tag = q->tag;
    work->fp.root = q->root;
    work->fp.dtype = work->fp.in_dtype = (uint8_t)q->dtype;
    work->fp.op = (uint8_t)q->op;
    return tess_work_submit(work, handle);
}

tess_status tess_all_gather(tess_team *team, const void *in, void *out, size_t n, tess_dtype dtype, tess_work **work)
{
    size_t bytes = 0;
    TESS_TRY(check(team, "all_gather", dtype, n, &bytes));
    size_t all = bytes * (size_t)team->size;
    TESS_TRY(check_buffer("all_gather", "in", in, bytes));
    TESS_TRY(check_buffer("all_gather", "out", out, all));
    TESS_TRY(check_own_block("all_gather", team, in, bytes, out, all));
    request q = {.kind = TESS_TRACE_ALL_GATHER,
                 .in = in,
                 .out = out,
                 .in_bytes = bytes,
                 .out_bytes = all,
                 .n = n,
                 .dtype = dtype,
                 .root = -1};
    return submit(team, &q, SITE, work);
}

tess_status tess_reduce_scatter(tess_team *team, const void *in, void *out, size_t n, tess_dtype dtype, tess_op op,
                                tess_work **work)
{
    size_t bytes = 0;
    TESS_TRY(check(team, "reduce_scatter", dtype, n, &bytes));
    TESS_TRY(check_op("reduce_scatter", op));
    size_t all = bytes * (size_t)team->size;
    TESS_TRY(check_buffer("reduce_scatter", "in", in, all));
    TESS_TRY(check_buffer("reduce_scatter", "out", out, bytes));
    TESS_TRY(check_apart("reduce_scatter", in, all, out, bytes));
    request q = {.kind = TESS_TRACE_REDUCE_SCATTER,
                 .in = in,
                 .out = out,
                 .in_bytes = all,
                 .out_bytes = bytes,
                 .n = n,
                 .dtype = dtype,
                 .op = op,
                 .root = -1};
    return submit(team, &q, SITE, work);
}

tess_status tess_all_reduce(tess_team *team, const void *in, void *out, size_t n, tess_dtype dtype, tess_op op,
                            tess_work **work)
{
    size_t bytes = 0;
    TESS_TRY(check(team, "all_reduce", dtype, n, &bytes));
    TESS_TRY(check_op("all_reduce", op));
    TESS_TRY(check_buffer("all_reduce", "in", in, bytes));
    TESS_TRY(check_buffer("all_reduce", "out", out, bytes));
    if (in != out)
        TESS_TRY(check_apart("all_reduce", in, bytes, out, bytes));
    request q = {.kind = TESS_TRACE_ALL_REDUCE,
                 .in = in,
                 .out = out,
                 .in_bytes = bytes,
                 .out_bytes = bytes,
                 .n = n,
                 .dtype = dtype,
                 .op = op,
                 .root = -1};
    return submit(team, &q, SITE, work);
}

tess_status tess_broadcast(tess_team *team, void *buffer, size_t n, tess_dtype dtype, int root, tess_work **work)
{
    size_t bytes = 0;
    TESS_TRY(check(team, "broadcast", dtype, n, &bytes));
    TESS_TRY(check_root(team, "broadcast", root));
    TESS_TRY(check_buffer("broadcast", "buffer", buffer, bytes));
    request q = {.kind = TESS_TRACE_BROADCAST,
                 .in = buffer,
                 .out = buffer,
                 .in_bytes = bytes,
                 .out_bytes = bytes,
                 .n = n,
                 .dtype = dtype,
                 .root = root};
    return submit(team, &q, SITE, work);
}

tess_status tess_all_to_all(tess_team *team, const void *in, void *out, size_t n, tess_dtype dtype, tess_work **work)
{
    size_t bytes = 0;
    TESS_TRY(check(team, "all_to_all", dtype, n, &bytes));
    size_t all = bytes * (size_t)team->size;
    TESS_TRY(check_buffer("all_to_all", "in", in, all));
    TESS_TRY(check_buffer("all_to_all", "out", out, all));
    TESS_TRY(check_apart("all_to_all", in, all, out, all));
    request q = {.kind = TESS_TRACE_ALL_TO_ALL,
                 .in = in,
                 .out = out,
                 .in_bytes = all,
                 .out_bytes = all,
                 .n = n,
                 .dtype = dtype,
                 .root = -1};
    return submit(team, &q, SITE, work);
}

/* First element behind the last block. */
static tess_status extent(const char *call, int size, const size_t *counts, const size_t *offsets, size_t *elements)
{
    *elements = 0;
    for (int r = 0; r < size; r++) {
        size_t end;
        TESS_CHECK(!__builtin_add_overflow(counts[r], offsets[r], &end) && end <= SIZE_MAX / 16, TESS_E_INVALID,
                   "%s: %zu elements at %zu for rank %d do not fit in memory", call, counts[r], offsets[r], r);
        if (counts[r] > 0 && end > *elements)
            *elements = end;
    }
    return TESS_OK;
}

tess_status tess_all_to_all_v(tess_team *team, const void *in, const size_t *in_counts, const size_t *in_offsets,
                              void *out, const size_t *out_counts, const size_t *out_offsets, tess_dtype dtype,
                              tess_work **handle)
{
    size_t none = 0, in_n = 0, out_n = 0;
    TESS_TRY(check(team, "all_to_all_v", dtype, 0, &none));
    TESS_CHECK(in_counts != NULL && in_offsets != NULL && out_counts != NULL && out_offsets != NULL, TESS_E_INVALID,
               "all_to_all_v: counts and offsets may not be NULL");
    TESS_TRY(extent("all_to_all_v", team->size, in_counts, in_offsets, &in_n));
    TESS_TRY(extent("all_to_all_v", team->size, out_counts, out_offsets, &out_n));
    size_t element = tess_dtype_size(dtype);
    TESS_TRY(check_buffer("all_to_all_v", "in", in, in_n * element));
    TESS_TRY(check_buffer("all_to_all_v", "out", out, out_n * element));
    TESS_TRY(check_apart("all_to_all_v", in, in_n * element, out, out_n * element));
    tess_work *work;
    TESS_TRY(tess_work_begin(team, TESS_TRACE_ALL_TO_ALL_V, SITE, &work));
    work->in = in;
    work->out = out;
    work->in_bytes = in_n * element;
    work->out_bytes = out_n * element;
    work->dtype = work->in_dtype = dtype;
    work->fp.dtype = work->fp.in_dtype = (uint8_t)dtype;
    work->counts = (comm_counts){in_counts, in_offsets, out_counts, out_offsets};
    return tess_work_submit(work, handle);
}

tess_status tess_gather(tess_team *team, const void *in, void *out, size_t n, tess_dtype dtype, int root,
                        tess_work **work)
{
    size_t bytes = 0;
    TESS_TRY(check(team, "gather", dtype, n, &bytes));
    TESS_TRY(check_root(team, "gather", root));
    size_t all = team->rank == root ? bytes * (size_t)team->size : 0;
    TESS_TRY(check_buffer("gather", "in", in, bytes));
    TESS_TRY(check_buffer("gather", "out", out, all));
    TESS_TRY(check_own_block("gather", team, in, bytes, out, all));
    request q = {.kind = TESS_TRACE_GATHER,
                 .in = in,
                 .out = out,
                 .in_bytes = bytes,
                 .out_bytes = all,
                 .n = n,
                 .dtype = dtype,
                 .root = root};
    return submit(team, &q, SITE, work);
}

tess_status tess_scatter(tess_team *team, const void *in, void *out, size_t n, tess_dtype dtype, int root,
                         tess_work **work)
{
    size_t bytes = 0;
    TESS_TRY(check(team, "scatter", dtype, n, &bytes));
    TESS_TRY(check_root(team, "scatter", root));
    size_t all = team->rank == root ? bytes * (size_t)team->size : 0;
    TESS_TRY(check_buffer("scatter", "in", in, all));
    TESS_TRY(check_buffer("scatter", "out", out, bytes));
    TESS_TRY(check_apart("scatter", in, all, out, bytes));
    request q = {.kind = TESS_TRACE_SCATTER,
                 .in = in,
                 .out = out,
                 .in_bytes = all,
                 .out_bytes = bytes,
                 .n = n,
                 .dtype = dtype,
                 .root = root};
    return submit(team, &q, SITE, work);
}

tess_status tess_send(tess_team *team, const void *in, size_t n, tess_dtype dtype, int to, uint32_t tag,
                      tess_work **work)
{
    size_t bytes = 0;
    TESS_TRY(check(team, "send", dtype, n, &bytes));
    TESS_TRY(check_root(team, "send", to));
    TESS_TRY(check_buffer("send", "in", in, bytes));
    request q = {.kind = TESS_TRACE_SEND, .in = in, .in_bytes = bytes, .n = n, .dtype = dtype, .root = to, .tag = tag};
    return submit(team, &q, SITE, work);
}

tess_status tess_recv(tess_team *team, void *out, size_t n, tess_dtype dtype, int from, uint32_t tag, tess_work **work)
{
    size_t bytes = 0;
    TESS_TRY(check(team, "recv", dtype, n, &bytes));
    TESS_TRY(check_root(team, "recv", from));
    TESS_TRY(check_buffer("recv", "out", out, bytes));
    request q = {
        .kind = TESS_TRACE_RECV, .out = out, .out_bytes = bytes, .n = n, .dtype = dtype, .root = from, .tag = tag};
    return submit(team, &q, SITE, work);
}

tess_status tess_barrier(tess_team *team, tess_work **work)
{
    TESS_CHECK(team != NULL, TESS_E_INVALID, "barrier: there is no team");
    request q = {.kind = TESS_TRACE_BARRIER, .dtype = TESS_U8, .root = -1};
    return submit(team, &q, SITE, work);
}

/* ---- Pieces ---- */
static tess_status check_pieces(const tess_team *team, const char *call, const tess_piece *pieces, size_t n_pieces,
                                size_t *elements, size_t *end)
{
    TESS_CHECK(team != NULL, TESS_E_INVALID, "%s: there is no team", call);
    TESS_CHECK(pieces != NULL || n_pieces == 0, TESS_E_INVALID, "%s: `pieces` is NULL", call);
    TESS_TRY_CTX(tess_pieces_extent(pieces, n_pieces, elements, end), "%s", call);
    return TESS_OK;
}

static tess_work *fill_pieces(tess_work *work, const void *in, tess_dtype in_dtype, void *out, tess_dtype out_dtype,
                              const tess_piece *pieces, size_t n_pieces, size_t elements)
{
    work->in = in;
    work->in_dtype = in_dtype;
    work->out = out;
    work->dtype = out_dtype;
    work->pieces = (comm_pieces){pieces, n_pieces};
    work->fp.count = elements;
    work->fp.dtype = (uint8_t)out_dtype;
    work->fp.in_dtype = (uint8_t)in_dtype;
    work->fp.tag = tess_pieces_hash(pieces, n_pieces);
    return work;
}

tess_status tess_all_gather_pieces(tess_team *team, const void *shard, tess_dtype in_dtype, void *full,
                                   tess_dtype out_dtype, const tess_piece *pieces, size_t n_pieces, tess_work **handle)
{
    static const char call[] = "all_gather_pieces";
    size_t elements = 0, end = 0;
    TESS_TRY(check_pieces(team, call, pieces, n_pieces, &elements, &end));
    TESS_CHECK((unsigned)in_dtype < TESS_DTYPE_COUNT && (unsigned)out_dtype < TESS_DTYPE_COUNT &&
                   (in_dtype == out_dtype || in_dtype == TESS_F32) && tess_convert_possible(in_dtype, out_dtype),
               TESS_E_INVALID, "%s: from dtype %d to dtype %d: the first must be float32, or both the same", call,
               (int)in_dtype, (int)out_dtype);
    size_t owned = tess_pieces_owned(pieces, n_pieces, team->size, team->rank);
    TESS_TRY(check_buffer(call, "shard", shard, owned * tess_dtype_size(in_dtype)));
    TESS_TRY(check_buffer(call, "full", full, end * tess_dtype_size(out_dtype)));
    tess_work *work;
    TESS_TRY(tess_work_begin(team, TESS_TRACE_ALL_GATHER_PIECES, SITE, &work));
    fill_pieces(work, shard, in_dtype, full, out_dtype, pieces, n_pieces, elements);
    work->out_bytes = end * tess_dtype_size(out_dtype);
    return tess_work_submit(work, handle);
}

tess_status tess_reduce_scatter_pieces(tess_team *team, const void *full, tess_dtype in_dtype, float *shard,
                                       const tess_piece *pieces, size_t n_pieces, bool accumulate, tess_work **handle)
{
    static const char call[] = "reduce_scatter_pieces";
    size_t elements = 0, end = 0;
    TESS_TRY(check_pieces(team, call, pieces, n_pieces, &elements, &end));
    TESS_CHECK(in_dtype == TESS_F32 || in_dtype == TESS_BF16 || in_dtype == TESS_F16, TESS_E_INVALID,
               "%s: dtype %d is not summed in float32", call, (int)in_dtype);
    size_t owned = tess_pieces_owned(pieces, n_pieces, team->size, team->rank);
    TESS_TRY(check_buffer(call, "shard", shard, owned * sizeof(float)));
    TESS_TRY(check_buffer(call, "full", full, end * tess_dtype_size(in_dtype)));
    tess_work *work;
    TESS_TRY(tess_work_begin(team, TESS_TRACE_REDUCE_SCATTER_PIECES, SITE, &work));
    fill_pieces(work, full, in_dtype, shard, TESS_F32, pieces, n_pieces, elements);
    work->in_bytes = end * tess_dtype_size(in_dtype);
    work->accumulate = accumulate;
    work->fp.flags = accumulate ? 1 : 0;
    return tess_work_submit(work, handle);
}

tess_status tess_team_exchange(tess_team *team, tess_trace_op kind, uint64_t count, uint64_t tag, const void *call_site,
                               const void *mine, void *all, size_t bytes)
{
    tess_work *work;
    TESS_TRY(tess_work_begin(team, kind, call_site, &work));
    work->fp.count = count;
    work->fp.tag = tag;
    work->in = mine;
    work->out = all;
    work->n = bytes;
    work->in_bytes = bytes;
    work->out_bytes = bytes * (size_t)team->size;
    work->dtype = TESS_U8;
    work->in_dtype = TESS_U8;
    return tess_work_submit(work, NULL);
}
