/* The public collectives. They check the arguments, fill in the fingerprint, and pass the operation to the team's
 * backend. */
#include "base/core/rng.h"
#include "comm/comm_impl.h"
#include "comm/pieces.h"
#include "comm/reduce.h"
#include "comm/tagged.h"

#define SITE __builtin_return_address(0)

/* How the size of a buffer follows from n. */
typedef enum extent {
    NOTHING,
    BLOCK,         /* n elements */
    BLOCKS,        /* n elements for each rank */
    BLOCKS_AT_ROOT /* n elements for each rank on the root, nothing on other ranks */
} extent;

typedef enum overlap {
    APART,
    OR_EQUAL,     /* or in == out */
    OR_OWN_BLOCK, /* `in` may be this rank's block of `out` */
    ONE_BUFFER    /* a single buffer, in == out, which the caller calls `buffer` */
} overlap;

/* The rules for the arguments of a collective. */
typedef struct contract {
    const char *call;
    extent in, out;
    overlap overlap;
    bool is_rooted, reduces;
} contract;

static const contract contracts[TESS_TRACE_OP_COUNT] = {
    [TESS_TRACE_ALL_GATHER] = {"all_gather", .in = BLOCK, .out = BLOCKS, .overlap = OR_OWN_BLOCK},
    [TESS_TRACE_REDUCE_SCATTER] = {"reduce_scatter", .in = BLOCKS, .out = BLOCK, .reduces = true},
    [TESS_TRACE_ALL_REDUCE] = {"all_reduce", .in = BLOCK, .out = BLOCK, .overlap = OR_EQUAL, .reduces = true},
    [TESS_TRACE_BROADCAST] = {"broadcast", .in = BLOCK, .out = BLOCK, .overlap = ONE_BUFFER, .is_rooted = true},
    [TESS_TRACE_ALL_TO_ALL] = {"all_to_all", .in = BLOCKS, .out = BLOCKS},
    [TESS_TRACE_GATHER] = {"gather", BLOCK, BLOCKS_AT_ROOT, OR_OWN_BLOCK, .is_rooted = true},
    [TESS_TRACE_SCATTER] = {"scatter", .in = BLOCKS_AT_ROOT, .out = BLOCK, .is_rooted = true},
    [TESS_TRACE_SEND] = {"send", .in = BLOCK, .is_rooted = true},
    [TESS_TRACE_RECV] = {"recv", .out = BLOCK, .is_rooted = true},
    [TESS_TRACE_BARRIER] = {"barrier", .in = NOTHING},
};

/* The arguments of a call. */
typedef struct request {
    tess_trace_op kind;
    const void *in;
    void *out;
    size_t n;
    tess_dtype dtype;
    tess_op op;
    int root; /* root or peer; -1: none */
    uint64_t tag;
} request;

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

static tess_status check_apart(const char *call, const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    uintptr_t p = (uintptr_t)a, q = (uintptr_t)b;
    TESS_CHECK(a_bytes == 0 || b_bytes == 0 || p + a_bytes <= q || q + b_bytes <= p, TESS_E_INVALID,
               "%s: `in` and `out` overlap", call);
    return TESS_OK;
}

static size_t extent_bytes(extent e, const tess_team *team, int root, size_t block)
{
    switch (e) {
    case NOTHING:
        return 0;
    case BLOCK:
        return block;
    case BLOCKS:
        return block * (size_t)team->size;
    case BLOCKS_AT_ROOT:
        return team->rank == root ? block * (size_t)team->size : 0;
    }
    return 0;
}

/* Whether in and out overlap only as the contract allows. */
static bool may_overlap(overlap o, const tess_team *team, const request *q, size_t block)
{
    if (o == OR_OWN_BLOCK)
        return q->out != NULL && q->in == (const uint8_t *)q->out + (size_t)team->rank * block;
    return o != APART && q->in == q->out;
}

/* Creates a work for the request and its buffers. The team stays locked after the call. */
static tess_status begin(tess_team *team, const request *q, size_t in_bytes, size_t out_bytes, const void *site,
                         tess_work **out)
{
    TESS_TRY(tess_work_begin(team, q->kind, site, out));
    tess_work *work = *out;
    work->in = q->in;
    work->out = q->out;
    work->in_bytes = in_bytes;
    work->out_bytes = out_bytes;
    work->n = q->n;
    work->dtype = work->in_dtype = q->dtype;
    work->op = q->op;
    work->root = q->root;
    work->fp.count = q->n;
    work->fp.tag = q->tag;
    work->fp.root = q->root;
    work->fp.dtype = work->fp.in_dtype = (uint8_t)q->dtype;
    work->fp.op = (uint8_t)q->op;
    return TESS_OK;
}

/* Inlined, so that the compiler knows the contract of each call and removes the checks that it does not need. */
static inline __attribute__((always_inline)) tess_status submit(tess_team *team, const request *q, const void *site,
                                                                tess_work **handle)
{
    const contract *c = &contracts[q->kind];
    size_t block = 0;
    TESS_TRY(check(team, c->call, q->dtype, q->n, &block));
    TESS_CHECK(!c->is_rooted || (q->root >= 0 && q->root < team->size), TESS_E_INVALID,
               "%s: rank %d is not in team '%s' of %d ranks", c->call, q->root, team->name, team->size);
    TESS_CHECK(!c->reduces || (unsigned)q->op <= TESS_AVG, TESS_E_INVALID, "%s: %d is no reduction", c->call,
               (int)q->op);
    size_t in_bytes = extent_bytes(c->in, team, q->root, block);
    size_t out_bytes = extent_bytes(c->out, team, q->root, block);
    TESS_TRY(check_buffer(c->call, c->overlap == ONE_BUFFER ? "buffer" : "in", q->in, in_bytes));
    TESS_TRY(check_buffer(c->call, "out", q->out, out_bytes));
    if (!may_overlap(c->overlap, team, q, block))
        TESS_TRY(check_apart(c->call, q->in, in_bytes, q->out, out_bytes));
    tess_work *work;
    TESS_TRY(begin(team, q, in_bytes, out_bytes, site, &work));
    return tess_work_submit(work, handle);
}

tess_status tess_all_gather(tess_team *team, const void *in, void *out, size_t n, tess_dtype dtype, tess_work **work)
{
    request q = {TESS_TRACE_ALL_GATHER, in, out, n, dtype, .root = -1};
    return submit(team, &q, SITE, work);
}

tess_status tess_reduce_scatter(tess_team *team, const void *in, void *out, size_t n, tess_dtype dtype, tess_op op,
                                tess_work **work)
{
    request q = {TESS_TRACE_REDUCE_SCATTER, in, out, n, dtype, op, .root = -1};
    return submit(team, &q, SITE, work);
}

tess_status tess_all_reduce(tess_team *team, const void *in, void *out, size_t n, tess_dtype dtype, tess_op op,
                            tess_work **work)
{
    request q = {TESS_TRACE_ALL_REDUCE, in, out, n, dtype, op, .root = -1};
    return submit(team, &q, SITE, work);
}

tess_status tess_all_reduce_tagged(tess_team *team, const void *in, void *out, size_t n, tess_dtype dtype, tess_op op,
                                   uint64_t tag)
{
    request q = {TESS_TRACE_ALL_REDUCE, in, out, n, dtype, op, .root = -1, .tag = tag};
    return submit(team, &q, SITE, NULL);
}

tess_status tess_broadcast(tess_team *team, void *buffer, size_t n, tess_dtype dtype, int root, tess_work **work)
{
    request q = {TESS_TRACE_BROADCAST, buffer, buffer, n, dtype, .root = root};
    return submit(team, &q, SITE, work);
}

tess_status tess_all_to_all(tess_team *team, const void *in, void *out, size_t n, tess_dtype dtype, tess_work **work)
{
    request q = {TESS_TRACE_ALL_TO_ALL, in, out, n, dtype, .root = -1};
    return submit(team, &q, SITE, work);
}

tess_status tess_gather(tess_team *team, const void *in, void *out, size_t n, tess_dtype dtype, int root,
                        tess_work **work)
{
    request q = {TESS_TRACE_GATHER, in, out, n, dtype, .root = root};
    return submit(team, &q, SITE, work);
}

tess_status tess_scatter(tess_team *team, const void *in, void *out, size_t n, tess_dtype dtype, int root,
                         tess_work **work)
{
    request q = {TESS_TRACE_SCATTER, in, out, n, dtype, .root = root};
    return submit(team, &q, SITE, work);
}

tess_status tess_send(tess_team *team, const void *in, size_t n, tess_dtype dtype, int to, uint32_t tag,
                      tess_work **work)
{
    request q = {TESS_TRACE_SEND, in, NULL, n, dtype, .root = to, .tag = tag};
    return submit(team, &q, SITE, work);
}

tess_status tess_recv(tess_team *team, void *out, size_t n, tess_dtype dtype, int from, uint32_t tag, tess_work **work)
{
    request q = {TESS_TRACE_RECV, NULL, out, n, dtype, .root = from, .tag = tag};
    return submit(team, &q, SITE, work);
}

tess_status tess_barrier(tess_team *team, tess_work **work)
{
    request q = {TESS_TRACE_BARRIER, .dtype = TESS_U8, .root = -1};
    return submit(team, &q, SITE, work);
}

/* ---- Uneven blocks ---- */
/* Checks uneven blocks. *elements: the first element after the last block. */
static tess_status find_end(const char *call, int size, const size_t *counts, const size_t *offsets, size_t *elements)
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
    static const char call[] = "all_to_all_v";
    size_t none = 0, in_n = 0, out_n = 0;
    TESS_TRY(check(team, call, dtype, 0, &none));
    TESS_CHECK(in_counts != NULL && in_offsets != NULL && out_counts != NULL && out_offsets != NULL, TESS_E_INVALID,
               "%s: counts and offsets may not be NULL", call);
    TESS_TRY(find_end(call, team->size, in_counts, in_offsets, &in_n));
    TESS_TRY(find_end(call, team->size, out_counts, out_offsets, &out_n));
    size_t element = tess_dtype_size(dtype);
    TESS_TRY(check_buffer(call, "in", in, in_n * element));
    TESS_TRY(check_buffer(call, "out", out, out_n * element));
    TESS_TRY(check_apart(call, in, in_n * element, out, out_n * element));
    request q = {TESS_TRACE_ALL_TO_ALL_V, in, out, .dtype = dtype, .root = -1};
    tess_work *work;
    TESS_TRY(begin(team, &q, in_n * element, out_n * element, SITE, &work));
    work->counts = (comm_counts){in_counts, in_offsets, out_counts, out_offsets};
    return tess_work_submit(work, handle);
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

/* Creates a work for reduce_scatter_pieces into `shard`. */
static tess_status begin_pieces_sum(tess_team *team, const void *full, tess_dtype in_dtype, float *shard,
                                    const tess_piece *pieces, size_t n_pieces, const void *site, tess_work **work)
{
    static const char call[] = "reduce_scatter_pieces";
    size_t elements = 0, end = 0;
    TESS_TRY(check_pieces(team, call, pieces, n_pieces, &elements, &end));
    TESS_CHECK(in_dtype == TESS_F32 || in_dtype == TESS_BF16 || in_dtype == TESS_F16, TESS_E_INVALID,
               "%s: dtype %d is not summed in float32", call, (int)in_dtype);
    size_t owned = tess_pieces_owned(pieces, n_pieces, team->size, team->rank);
    TESS_TRY(check_buffer(call, "shard", shard, owned * sizeof(float)));
    TESS_TRY(check_buffer(call, "full", full, end * tess_dtype_size(in_dtype)));
    TESS_TRY(tess_work_begin(team, TESS_TRACE_REDUCE_SCATTER_PIECES, site, work));
    fill_pieces(*work, full, in_dtype, shard, TESS_F32, pieces, n_pieces, elements);
    (*work)->in_bytes = end * tess_dtype_size(in_dtype);
    return TESS_OK;
}

tess_status tess_reduce_scatter_pieces(tess_team *team, const void *full, tess_dtype in_dtype, float *shard,
                                       const tess_piece *pieces, size_t n_pieces, bool accumulate, tess_work **handle)
{
    tess_work *work;
    TESS_TRY(begin_pieces_sum(team, full, in_dtype, shard, pieces, n_pieces, SITE, &work));
    work->accumulate = accumulate;
    work->fp.flags = accumulate ? TESS_FINGERPRINT_ACCUMULATE : 0;
    return tess_work_submit(work, handle);
}

tess_status tess_reduce_scatter_leaves(tess_team *team, const void *full, tess_dtype in_dtype,
                                       const tess_leaf_step *steps, int n_steps, const tess_piece *pieces,
                                       size_t n_pieces, tess_work **handle)
{
    tess_work *work;
    TESS_TRY(begin_pieces_sum(team, full, in_dtype, steps->y, pieces, n_pieces, SITE, &work));
    if (n_steps == 1 && steps->n == team->size) {
        work->accumulate = steps->accumulate;
        work->fp.flags = steps->accumulate ? TESS_FINGERPRINT_ACCUMULATE : 0;
        return tess_work_submit(work, handle);
    }
    work->steps = steps;
    work->n_steps = n_steps;
    for (int i = 0; i < n_steps; i++) {
        const int shape[] = {steps[i].begin, steps[i].n, steps[i].accumulate};
        work->fp.tag = tess_hash_bytes(shape, sizeof(shape), work->fp.tag);
    }
    return tess_work_submit(work, handle);
}

tess_status tess_team_exchange(tess_team *team, tess_trace_op kind, uint64_t count, uint64_t tag, const void *call_site,
                               const void *mine, void *all, size_t bytes)
{
    request q = {kind, mine, all, bytes, TESS_U8, .root = -1};
    tess_work *work;
    TESS_TRY(begin(team, &q, bytes, bytes * (size_t)team->size, call_site, &work));
    work->fp.count = count;
    work->fp.tag = tag;
    return tess_work_submit(work, NULL);
}
