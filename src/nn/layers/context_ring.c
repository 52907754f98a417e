/* Attention of ranks that divide tokens, as a ring (tess_context in nn/points.h). Each rank attends with the queries of
 * its own tokens. Leaves of keys and values travel from rank to rank, and every rank takes them in the order of their
 * positions. A kernel call takes one leaf and keeps each row's sums for the next one (tess_attention.state), so no sum
 * is cut and the bits are those of one rank. In backward the keys travel again for dq. Then the queries travel to the
 * keys for dk and dv: a query head of each key head at a time, because these sums go by query head first.
 *
 * A leaf goes only to ranks with a row that sees one of its rows, in the order of the ranks after its owner. The next
 * leaf travels while this one is computed: each buffer of the ring has room for one.
 *
 * Kernels take keys in blocks that are counted from the first token of a sequence, and a leaf may end inside one. So a
 * call takes whole parts (tess_context.ring_part), and the rows of a part that is not complete yet are copied to the
 * rows before the next leaf. If a part begins in a leaf that no row sees, these rows are 0.
 *
 * A leaf has T / L rows. A rank receives for each leaf that it needs and does not own: 2 G D elements for each row in
 * forward, and in backward (2 G + 2 H) D elements and 2 H floats. With one sequence, no window and the order of folded
 * leaves, rank r of c needs (c - 1 - r / 2) L / c of them. */
#include <limits.h>

#include "device/device.h"
#include "nn/layers/layers.h"
#include "nn/layers/transformer_layer.h"

enum {
    BUFFERS = 2,
    MOST_LEAVES = 1024 /* the most that a configuration has */
};

/* The pieces whose rows one piece sees. */
typedef struct seen_pieces {
    int first, last;
} seen_pieces;

static const seen_pieces nothing_seen = {INT_MAX, -1};

/* Leaves that circulate once. */
typedef struct ring_walk {
    const tess_layer_call *c;
    const tess_attention_grad *g; /* forward sets only its member `forward` */
    const void *k, *v;            /* this rank's rows */
    const char *what;
    bool of_keys;      /* keys circulate and queries stay; false: the other way */
    int64_t row, tail; /* bytes of a leaf's row, and of numbers for each row, which follow the leaf's rows */
    int64_t head;      /* queries: the number of the query head among those of each key head */
    bool skips_inner;  /* the gradients of sequences inside one leaf are already there */
    int64_t part;      /* rows of a part; as many rows lie before the leaf in a buffer */
    float *floats[2];  /* (BUFFERS, part + rows of a leaf, G) queries: lse and delta of the rows in a buffer */
    float *delta;      /* (T, H) backward: that of this rank's rows */
    seen_pieces *seen; /* (n_leaves) */
} ring_walk;

/* The part of a sequence that lies in one of this rank's leaves. Rows count from the sequence's first token. */
typedef struct own_run {
    int64_t row;            /* its first row among this rank's tokens */
    int64_t start, length;  /* the sequence's first token in the micro-batch, and its number of tokens */
    int64_t begin, end;     /* its own rows */
    int64_t seen;           /* the first row of the other kind that it sees */
    int64_t need, need_end; /* the rows of the other kind that it takes, in whole parts but for the last one */
} own_run;

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t part_rows(const tess_context *context)
{
    return context->ring_part > 0 ? context->ring_part : TESS_ATTENTION_PART;
}

static int64_t leaf_rows(const tess_layer_call *c)
{
    return c->T * c->context->points.degree / c->context->n_leaves;
}

static int own_leaves(const tess_context *context)
{
    return context->n_leaves / context->points.degree;
}

/* The piece of this rank's leaf number i. */
static int own_piece(const tess_context *context, int i)
{
    return tess_context_piece(context, context->points.rank * own_leaves(context) + i);
}

static int owner_of(const tess_context *context, int piece)
{
    return tess_context_leaf(context, piece) / own_leaves(context);
}

/* ---- Visible pieces ---- */
static own_run run_of(const ring_walk *w, int64_t sequence, int64_t begin, int64_t end)
{
    const int32_t *bounds = w->c->batch->cu_seqlens;
    const int64_t start = bounds[sequence], length = bounds[sequence + 1] - start, window = w->g->forward.window;
    own_run r = {.start = start,
                 .length = length,
                 .begin = (begin > start ? begin : start) - start,
                 .end = least(end, bounds[sequence + 1]) - start};
    const int64_t first = w->of_keys && window > 0 ? r.begin + 1 - window : w->of_keys ? 0 : r.begin;
    r.seen = first > 0 ? first : 0;
    r.need = r.seen / w->part * w->part;
    r.need_end = w->of_keys ? r.end : window > 0 ? least(length, r.end + window - 1) : length;
    return r;
}

/* Returns the sequence that has a token. */
static int64_t sequence_at(const tess_batch *batch, int64_t token)
{
    int64_t low = 0, high = batch->n_seqs;
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        if (batch->cu_seqlens[middle] <= token)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Finds the pieces that each piece sees. The rows between the first and the last sequence of a piece see nothing
 * outside of it. A piece sees no piece at all, and does not circulate, if all of its sequences are inside it and
 * skipped. */
static void find_seen(const ring_walk *w)
{
    const int64_t rows = leaf_rows(w->c);
    for (int piece = 0; piece < w->c->context->n_leaves; piece++) {
        const int64_t begin = piece * rows, end = begin + rows;
        const own_run first = run_of(w, sequence_at(w->c->batch, begin), begin, end),
                      last = run_of(w, sequence_at(w->c->batch, end - 1), begin, end);
        w->seen[piece] =
            (seen_pieces){(int)((first.start + first.seen) / rows), (int)((last.start + last.need_end - 1) / rows)};
        if (w->skips_inner && first.start >= begin && last.start + last.length <= end)
            w->seen[piece] = nothing_seen;
    }
}

static bool needs(const ring_walk *w, int rank, int piece)
{
    const tess_context *context = w->c->context;
    const int n = own_leaves(context);
    for (int i = 0; i < n; i++) {
        const seen_pieces seen = w->seen[tess_context_piece(context, rank * n + i)];
        if (seen.first <= piece && piece <= seen.last)
            return true;
    }
    return false;
}

/* Returns the neighbour of this rank on the way of a piece: the next one (`step` 1), or the one before (-1), which the
 * owner does not have. -1: the way ends here. */
static int neighbour(const ring_walk *w, int piece, int step)
{
    const tess_context *context = w->c->context;
    const int c = context->points.degree, owner = owner_of(context, piece);
    for (int r = (context->points.rank + step + c) % c;; r = (r + step + c) % c) {
        if (r == owner)
            return step > 0 ? -1 : r;
        if (needs(w, r, piece))
            return r;
    }
}

static bool owns(const ring_walk *w, int piece)
{
    return owner_of(w->c->context, piece) == w->c->context->points.rank;
}

/* Returns the next piece after `piece` that this rank has to do with. */
static int next_piece(const ring_walk *w, int piece)
{
    for (piece++; piece < w->c->context->n_leaves; piece++)
        if ((owns(w, piece) && w->seen[piece].last >= 0) || needs(w, w->c->context->points.rank, piece))
            break;
    return piece;
}

/* ---- Buffers ---- */
/* Returns row `row` of a buffer; the leaf begins at row w->part. */
static char *buffer_row(const ring_walk *w, int turn, int64_t row)
{
    return w->c->context->ring.buffers[turn] + row * w->row;
}

static float *buffer_floats(const ring_walk *w, int which, int turn, int64_t row)
{
    return w->floats[which] + (turn * (w->part + leaf_rows(w->c)) + row) * w->g->forward.n_kv_heads;
}

static tess_status hop(const ring_walk *w, int piece, int turn, bool sends, int peer)
{
    const tess_ring_points *ring = &w->c->context->ring;
    return ring->begin(ring->self, turn, sends,
                       &(tess_hop){.what = w->what,
                                   .leaf = piece,
                                   .peer = peer,
                                   .memory = buffer_row(w, turn, w->part),
                                   .bytes = (size_t)(leaf_rows(w->c) * (w->row + w->tail))});
}

static tess_status pass_on(const ring_walk *w, int piece, int turn)
{
    const int next = neighbour(w, piece, 1);
    return next >= 0 ? hop(w, piece, turn, true, next) : TESS_OK;
}

/* Copies columns of own rows to a buffer. */
static tess_status put(const ring_walk *w, int turn, int64_t at, int64_t width, const void *from, int64_t ld)
{
    const int64_t element = (int64_t)tess_dtype_size(w->c->dtype);
    return tess_layer_copy_rows(w->c, element, leaf_rows(w->c), width, from, ld,
                                buffer_row(w, turn, w->part) + at * element, w->row / element);
}

/* Copies column `column` of own numbers (T, H) to the tail of a leaf, (rows, G), which begins with row `first`. */
static tess_status put_floats(const ring_walk *w, int turn, int which, const float *from, int64_t first)
{
    const int64_t G = w->g->forward.n_kv_heads, H = w->g->forward.n_heads, rows = leaf_rows(w->c);
    float *to = (float *)(void *)buffer_row(w, turn, w->part + rows) + which * rows * G;
    for (int64_t kv = 0; kv < G; kv++)
        TESS_TRY(tess_layer_copy_rows(w->c, sizeof(float), rows, 1, from + first * H + kv * (H / G) + w->head, H,
                                      to + kv, G));
    return TESS_OK;
}

/* Puts this rank's leaf i in a buffer: rows of keys and values, or of queries and their gradients. */
static tess_status put_leaf(const ring_walk *w, int i, int turn)
{
    const tess_layer_call *c = w->c;
    const tess_attention *a = &w->g->forward;
    const int64_t D = a->head_size, G = a->n_kv_heads, n_rep = a->n_heads / G, first = i * leaf_rows(c);
    if (w->of_keys) {
        TESS_TRY(put(w, turn, 0, G * D, tess_at(c, w->k, first * a->k_stride), a->k_stride));
        return put(w, turn, G * D, G * D, tess_at(c, w->v, first * a->v_stride), a->v_stride);
    }
    for (int64_t kv = 0; kv < G; kv++) {
        const int64_t column = (kv * n_rep + w->head) * D, dout = first * w->g->dout_stride + column;
        TESS_TRY(put(w, turn, kv * D, D, tess_at(c, a->q, first * a->q_stride + column), a->q_stride));
        TESS_TRY(put(w, turn, (G + kv) * D, D, tess_at(c, w->g->dout, dout), w->g->dout_stride));
    }
    TESS_TRY(put_floats(w, turn, 0, a->lse, first));
    return put_floats(w, turn, 1, w->delta, first);
}

/* Begins to bring a piece into a buffer, once the leaf that was there has left. */
static tess_status bring(const ring_walk *w, int piece, int turn)
{
    const tess_context *context = w->c->context;
    TESS_TRY(context->ring.end(context->ring.self, turn, true));
    if (!owns(w, piece))
        return hop(w, piece, turn, false, neighbour(w, piece, -1));
    TESS_TRY(put_leaf(w, tess_context_leaf(context, piece) % own_leaves(context), turn));
    return pass_on(w, piece, turn);
}

/* Waits for a piece, and passes it on. */
static tess_status arrive(const ring_walk *w, int piece, int turn)
{
    const tess_context *context = w->c->context;
    const int64_t G = w->g->forward.n_kv_heads, rows = leaf_rows(w->c);
    if (!owns(w, piece)) {
        TESS_TRY(context->ring.end(context->ring.self, turn, false));
        TESS_TRY(pass_on(w, piece, turn));
    }
    for (int i = 0; i < 2 && w->tail > 0; i++)
        TESS_TRY(tess_stream_copy(w->c->stream, buffer_floats(w, i, turn, w->part),
                                  buffer_row(w, turn, w->part + rows) + i * rows * G * (int64_t)sizeof(float),
                                  (size_t)(rows * G) * sizeof(float)));
    return TESS_OK;
}

/* Returns the rows of the sequence that a run takes once all tokens before `token` are there. */
static int64_t available(const ring_walk *w, const own_run *r, int64_t token)
{
    const int64_t row = token - r->start;
    return row >= r->need_end ? r->need_end : row <= 0 ? 0 : row / w->part * w->part;
}

/* Sets the rows before a buffer's leaf to 0: no row sees them, but they are multiplied with probabilities of 0. */
static tess_status clear(const ring_walk *w, int turn)
{
    const int64_t G = w->g->forward.n_kv_heads;
    for (int i = 0; i < 2 && w->tail > 0; i++)
        TESS_TRY(
            tess_stream_fill(w->c->stream, buffer_floats(w, i, turn, 0), 0, (size_t)(w->part * G) * sizeof(float)));
    return tess_stream_fill(w->c->stream, buffer_row(w, turn, 0), 0, (size_t)(w->part * w->row));
}

/* Copies the rows of a part that ends in the next piece to the other buffer, before its leaf. */
static tess_status carry(const ring_walk *w, int piece, int turn)
{
    const tess_batch *batch = w->c->batch;
    const int64_t rows = leaf_rows(w->c), end = (piece + 1) * rows, G = w->g->forward.n_kv_heads;
    const int64_t start = batch->cu_seqlens[sequence_at(batch, end)], n = (end - start) % w->part;
    const int64_t from = w->part + rows - n, to = w->part - n;
    if (n == 0)
        return TESS_OK;
    TESS_TRY(
        tess_stream_copy(w->c->stream, buffer_row(w, 1 - turn, to), buffer_row(w, turn, from), (size_t)(n * w->row)));
    for (int i = 0; i < 2 && w->tail > 0; i++)
        TESS_TRY(tess_stream_copy(w->c->stream, buffer_floats(w, i, 1 - turn, to), buffer_floats(w, i, turn, from),
                                  (size_t)(n * G) * sizeof(float)));
    return TESS_OK;
}

/* ---- Kernel calls ---- */
/* Describes what a run takes of rows [begin, end) of its sequence, which are in a buffer from row `at` on. */
static tess_attention_seq part_of(const ring_walk *w, const own_run *r, int64_t begin, int64_t end, int turn,
                                  int64_t at)
{
    const tess_attention *a = &w->g->forward;
    const int64_t n_rep = a->n_heads / a->n_kv_heads;
    tess_attention_seq s = {.first = begin == r->need, .last = end == r->need_end};
    if (w->of_keys) {
        s.q_begin = r->row;
        s.q_len = r->end - r->begin;
        s.k_len = r->end;
        s.k_begin = begin;
        s.k_end = end;
        s.k = buffer_row(w, turn, at);
        s.v = tess_at(w->c, s.k, a->n_kv_heads * a->head_size);
        return s;
    }
    s.first = s.first && w->head == 0;
    s.last = s.last && w->head == n_rep - 1;
    s.q_begin = at;
    s.q_len = end - begin;
    s.k_len = end;
    s.k_begin = r->begin;
    s.k_end = r->end;
    s.k_row = r->row;
    s.k = tess_at(w->c, w->k, r->row * a->k_stride);
    s.v = tess_at(w->c, w->v, r->row * a->v_stride);
    return s;
}

/* Whether all tokens of a sequence are among the tokens [from, to). */
static bool is_inside(const tess_batch *batch, int64_t sequence, int64_t from, int64_t to)
{
    return batch->cu_seqlens[sequence] >= from && batch->cu_seqlens[sequence + 1] <= to;
}

/* Describes what this rank's rows take when a piece is there. Returns the number of descriptors. */
static int64_t find_parts(const ring_walk *w, int piece, int turn)
{
    const tess_layer_call *c = w->c;
    const int64_t rows = leaf_rows(c), begin = piece * rows;
    int64_t n = 0;
    for (int i = 0; i < own_leaves(c->context); i++) {
        const int own = own_piece(c->context, i);
        const int64_t from = own * rows, to = from + rows;
        if (w->seen[own].first > piece || w->seen[own].last < piece)
            continue;
        for (int64_t k = sequence_at(c->batch, from); k < c->batch->n_seqs && c->batch->cu_seqlens[k] < to; k++) {
            if (w->skips_inner && is_inside(c->batch, k, from, to))
                continue;
            own_run r = run_of(w, k, from, to);
            const int64_t before = available(w, &r, begin), end = available(w, &r, begin + rows);
            const int64_t first = before > r.need ? before : r.need;
            r.row = i * rows + r.start + r.begin - from;
            if (first < end)
                c->seqs[n++] = part_of(w, &r, first, end, turn, w->part + r.start + first - begin);
        }
    }
    return n;
}

/* Returns the most rows that a call takes. The work space of every call is that of this many rows. In a plan rows are
 * full, so parts begin with leaves and calls have fewer rows. Documents begin anywhere. */
static int64_t most_keys(const tess_layer_call *c)
{
    return part_rows(c->context) + leaf_rows(c);
}

static tess_status attend(const ring_walk *w, int64_t n, int turn)
{
    const tess_layer_call *c = w->c;
    tess_attention_grad g = *w->g;
    tess_attention *a = &g.forward;
    const int64_t G = a->n_kv_heads, D = a->head_size, width = w->row / (int64_t)tess_dtype_size(c->dtype);
    a->n_seqs = n;
    a->seqs = c->seqs;
    a->most_keys = most_keys(c);
    if (w->of_keys)
        a->k_stride = a->v_stride = width;
    if (g.wanted == TESS_ATTENTION_ALL)
        return c->kernels->attention_forward(c->stream, a);
    g.dsinks = NULL;
    if (!w->of_keys) {
        a->n_heads = G;
        a->q = buffer_row(w, turn, 0);
        a->q_stride = g.dout_stride = width;
        g.dout = tess_at(c, a->q, G * D);
        a->lse = buffer_floats(w, 0, turn, 0);
        g.delta = buffer_floats(w, 1, turn, 0);
    }
    return c->kernels->attention_backward(c->stream, &g);
}

/* Takes all leaves that this rank needs, in order, while the next one travels. */
static tess_status walk(const ring_walk *w)
{
    const tess_ring_points *ring = &w->c->context->ring;
    const int n_leaves = w->c->context->n_leaves;
    int piece, turn = 0;
    TESS_CHECK(n_leaves <= MOST_LEAVES, TESS_E_INVALID, "a ring: %d leaves, at most %d", n_leaves, (int)MOST_LEAVES);
    if (leaf_rows(w->c) == 0) /* an empty micro-batch fills up a step */
        return TESS_OK;
    find_seen(w);
    piece = next_piece(w, -1);
    if (piece < n_leaves) {
        TESS_TRY(bring(w, piece, turn));
        TESS_TRY(clear(w, turn));
    }
    for (int next; piece < n_leaves; piece = next, turn = 1 - turn) {
        next = next_piece(w, piece);
        TESS_TRY(arrive(w, piece, turn));
        if (next < n_leaves)
            TESS_TRY(bring(w, next, 1 - turn));
        const int64_t n = find_parts(w, piece, turn);
        if (n > 0)
            TESS_TRY(attend(w, n, turn));
        if (next < n_leaves)
            TESS_TRY(next == piece + 1 ? carry(w, piece, turn) : clear(w, 1 - turn));
    }
    for (turn = 0; turn < BUFFERS; turn++)
        TESS_TRY(ring->end(ring->self, turn, true));
    return TESS_OK;
}

/* ---- Memory ---- */
static int64_t key_row_bytes(int64_t G, int64_t D, tess_dtype dtype)
{
    return 2 * G * D * (int64_t)tess_dtype_size(dtype);
}

size_t tess_ring_buffer_bytes(const tess_attention_params *p, const tess_context *context, int64_t n_tokens,
                              tess_dtype dtype)
{
    const int64_t rows = n_tokens / own_leaves(context), G = p->n_kv_heads;
    const int64_t tail = 2 * G * (int64_t)sizeof(float);
    return (size_t)((part_rows(context) + rows) * key_row_bytes(G, p->head_size, dtype) + rows * tail);
}

/* The first float of each array of the work space. */
typedef struct ring_layout {
    int64_t delta, floats, all, end; /* the sums of rows come first; `all` (3, all tokens, H) if there are sinks */
} ring_layout;

static ring_layout lay_out(const tess_context *context, int64_t T, int64_t H, int64_t G, int64_t D, bool has_sinks)
{
    const int64_t rows = T / own_leaves(context), queries = T * H * (D + 2), keys = T * G * 2 * D;
    ring_layout l = {.delta = queries > keys ? queries : keys};
    l.floats = l.delta + T * H;
    l.all = l.floats + 2 * BUFFERS * (part_rows(context) + rows) * G;
    l.end = l.all + (has_sinks ? 3 * T * context->points.degree * H : 0);
    return l;
}

size_t tess_ring_work_bytes(const tess_attention_params *p, const tess_context *context, int64_t n_tokens)
{
    const ring_layout l = lay_out(context, n_tokens, p->n_heads, p->n_kv_heads, p->head_size, p->sinks >= 0);
    return (size_t)l.end * sizeof(float);
}

/* The arrays of the work space. */
typedef struct ring_memory {
    float *sums, *delta, *floats, *all;
} ring_memory;

static ring_memory memory_of(const tess_layer_call *c, const tess_attention *a)
{
    const ring_layout l = lay_out(c->context, c->T, a->n_heads, a->n_kv_heads, a->head_size, a->sinks != NULL);
    float *const work = c->context_work;
    return (ring_memory){work, work + l.delta, work + l.floats, work + l.all};
}

/* ---- Both directions ---- */
tess_status tess_ring_attention_forward(const tess_layer_call *c, const tess_attention *a, const void *k, const void *v)
{
    seen_pieces seen[MOST_LEAVES];
    tess_attention_grad g = {.forward = *a};
    g.forward.state = memory_of(c, a).sums;
    const ring_walk w = {.c = c,
                         .g = &g,
                         .k = k,
                         .v = v,
                         .what = "keys",
                         .of_keys = true,
                         .row = key_row_bytes(a->n_kv_heads, a->head_size, c->dtype),
                         .part = part_rows(c->context),
                         .seen = seen};
    return walk(&w);
}

/* Gathers this rank's numbers (T, H) in the order of positions. */
static tess_status gather_floats(const tess_layer_call *c, int64_t H, const float *mine, float *moved, float *whole)
{
    const int64_t all = c->T * c->context->points.degree, rows = leaf_rows(c);
    TESS_TRY(tess_meet_over(&c->context->points, "sums", sizeof(float), (tess_matrix_box){{all, c->T}, {H, 0}, mine, H},
                            (tess_matrix_box){{all, 0}, {H, 0}, moved, H}));
    for (int leaf = 0; leaf < c->context->n_leaves; leaf++)
        TESS_TRY(tess_stream_copy(c->stream, whole + tess_context_piece(c->context, leaf) * rows * H,
                                  moved + leaf * rows * H, (size_t)(rows * H) * sizeof(float)));
    return TESS_OK;
}

/* The first rank alone computes the gradient of the sinks, which is a sum over all rows; the others' are 0. */
static tess_status sinks_backward(const tess_layer_call *c, const tess_attention_grad *g, const ring_memory *m)
{
    const int64_t H = g->forward.n_heads, n = c->T * c->context->points.degree * H;
    tess_attention_grad whole = *g;
    if (g->dsinks == NULL)
        return TESS_OK;
    TESS_TRY(gather_floats(c, H, g->forward.lse, m->all, m->all + n));
    TESS_TRY(gather_floats(c, H, m->delta, m->all, m->all + 2 * n));
    if (c->context->points.rank > 0)
        return tess_stream_fill(c->stream, g->dsinks, 0, (size_t)H * sizeof(float));
    tess_attention_sequences(c, m->all, m->all, 0, 0, c->seqs); /* keys are not read */
    whole.wanted = TESS_ATTENTION_SINKS;
    whole.forward.n_seqs = c->batch->n_seqs;
    whole.forward.seqs = c->seqs;
    whole.forward.lse = m->all + n;
    whole.delta = m->all + 2 * n;
    return c->kernels->attention_backward(c->stream, &whole);
}

/* Computes all gradients of the sequences that lie inside one of this rank's leaves. Nothing travels for them. The call
 * takes five products if the work space has room for enough sequences at a time, and seven otherwise. */
static tess_status backward_inside(const tess_layer_call *c, const tess_attention_grad *grad, const void *k,
                                   const void *v)
{
    const int32_t *bounds = c->batch->cu_seqlens;
    const int64_t rows = leaf_rows(c);
    tess_attention_grad g = *grad;
    tess_attention *a = &g.forward;
    a->n_seqs = 0;
    a->seqs = c->seqs;
    a->most_keys = most_keys(c);
    for (int i = 0; i < own_leaves(c->context) && rows > 0; i++) {
        const int64_t from = own_piece(c->context, i) * rows, to = from + rows;
        for (int64_t n = sequence_at(c->batch, from); n < c->batch->n_seqs && bounds[n] < to; n++) {
            const int64_t row = i * rows + bounds[n] - from, length = bounds[n + 1] - bounds[n];
            if (is_inside(c->batch, n, from, to))
                c->seqs[a->n_seqs++] = (tess_attention_seq){.q_begin = row,
                                                            .q_len = length,
                                                            .k_len = length,
                                                            .k = tess_at(c, k, row * a->k_stride),
                                                            .v = tess_at(c, v, row * a->v_stride)};
        }
    }
    return a->n_seqs > 0 ? c->kernels->attention_backward(c->stream, &g) : TESS_OK;
}

tess_status tess_ring_attention_backward(const tess_layer_call *c, const tess_attention_grad *grad, const void *k,
                                         const void *v)
{
    seen_pieces seen[MOST_LEAVES];
    const tess_attention *a = &grad->forward;
    const int64_t G = a->n_kv_heads, D = a->head_size, n_rep = a->n_heads / G;
    const ring_memory m = memory_of(c, a);
    tess_attention_grad g = *grad;
    g.forward.state = m.sums;
    g.wanted = TESS_ATTENTION_QUERIES;
    g.delta = m.delta;
    ring_walk w = {.c = c,
                   .g = &g,
                   .k = k,
                   .v = v,
                   .what = "keys",
                   .of_keys = true,
                   .row = key_row_bytes(G, D, c->dtype),
                   .part = part_rows(c->context),
                   .delta = m.delta,
                   .skips_inner = grad->dsinks == NULL, /* sums for sinks need delta of all rows */
                   .seen = seen};
    if (w.skips_inner) {
        /* A leaf travels with the deltas of all of its rows, and the walk does not compute those of skipped ones. */
        TESS_TRY(tess_stream_fill(c->stream, m.delta, 0, (size_t)(c->T * a->n_heads) * sizeof(float)));
        TESS_TRY(backward_inside(c, grad, k, v));
    }
    TESS_TRY(walk(&w));
    TESS_TRY(sinks_backward(c, grad, &m));
    g.wanted = TESS_ATTENTION_KEYS;
    w.what = "queries";
    w.of_keys = false;
    w.tail = 2 * G * (int64_t)sizeof(float);
    w.floats[0] = m.floats;
    w.floats[1] = m.floats + BUFFERS * (w.part + leaf_rows(c)) * G;
    for (w.head = 0; w.head < n_rep; w.head++)
        TESS_TRY(walk(&w));
    return TESS_OK;
}
