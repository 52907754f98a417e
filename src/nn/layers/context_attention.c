/* Attention if ranks divide the tokens of a batch, or if its tokens lie in leaves (tess_context in nn/points.h). The
 * kernels work on all tokens in the order of their positions, so the bits are those of one rank without leaves. The
 * ring is in context_ring.c.
 *
 * By heads (Ulysses): each rank attends with some key heads and their query heads. One exchange turns a rank's tokens
 * of all heads into all tokens of its heads, and another one turns the results back. Ranks after the last key head
 * only exchange. Each of c ranks receives (c - 1) / c of: (2 H + 2 G) D elements and H floats for each of its tokens in
 * forward, and (4 H + 4 G) D elements and H floats in backward.
 *
 * By queries: every rank gathers the keys and values of a key head, and attends with its own queries. It receives, for
 * each token of the others, 2 G D elements.
 * Backward divides the key heads, c at a time, as by heads: five products, and the same work space of one key head and
 * all tokens. G mod c key heads are left. For each of these a rank gathers keys, values, queries, outputs and their
 * gradients, and computes dq of own queries, and dk and dv of own keys. So no sum is cut, and both kinds of rows are as
 * many on each rank, but scores and their gradient are computed twice: seven products. For such a head a rank receives,
 * for each token of the others, (3 H / G + 2) D elements and H / G floats. */
#include "device/device.h"
#include "nn/layers/layers.h"
#include "nn/layers/transformer_layer.h"

/* Query heads [first, first + n) and n_kv key heads that this rank attends with at once. The cuts are those of a row's
 * columns: ranks without a part of them want all. */
typedef struct own_heads {
    tess_cut q, kv, lse;
    int64_t D, first, n, n_kv;
} own_heads;

/* One key head and its n query heads; they begin where the caller's pointers do. */
static own_heads one_group(int64_t n, int64_t D)
{
    return (own_heads){.q = {n * D, 0}, .kv = {D, 0}, .lse = {n, 0}, .D = D, .n = n, .n_kv = 1};
}

/* A key head for each rank, and its n query heads. The first one begins where the caller's pointers do. */
static own_heads one_each(const tess_context *context, int64_t n, int64_t D)
{
    const int64_t c = context->points.degree;
    return (own_heads){.q = {c * n * D, n * D},
                       .kv = {c * D, D},
                       .lse = {c * n, n},
                       .D = D,
                       .first = context->points.rank * n,
                       .n = n,
                       .n_kv = 1};
}

static bool goes_by_heads(const tess_context *context)
{
    return context->by_heads || context->points.degree == 1;
}

static bool goes_round(const tess_context *context)
{
    return context->rings && !goes_by_heads(context);
}

static own_heads heads_of(const tess_context *context, int64_t H, int64_t G, int64_t D, int rank)
{
    const int degree = context->points.degree;
    if (!goes_by_heads(context))
        return one_group(H / G, D);
    own_heads h = {.q = {H * D, H / G * D}, .kv = {G * D, D}, .lse = {H, H / G}, .D = D};
    int64_t begin;
    tess_cut_range((tess_cut){G, 1}, degree, rank, &begin, &h.n_kv);
    tess_cut_range(h.lse, degree, rank, &h.first, &h.n);
    return h;
}

/* Arrays of all tokens, with this rank's heads, in the order of positions; `moved` has the order of leaves. */
typedef struct whole_tokens {
    void *moved, *q, *out, *k, *v, *dq, *dout, *dk, *dv;
    float *lse;
} whole_tokens;

enum { QUERIES = 5, KEYS = 4 }; /* numbers of arrays as wide as queries, and as keys */

size_t tess_context_attention_bytes(const tess_attention_params *p, const tess_context *context, int64_t n_tokens,
                                    tess_dtype dtype)
{
    if (p->n_kv_heads == 0)
        return 0;
    if (goes_round(context))
        return tess_ring_work_bytes(p, context, n_tokens);
    const own_heads h = heads_of(context, p->n_heads, p->n_kv_heads, p->head_size, 0);
    const int64_t elements = (QUERIES * h.n + KEYS * h.n_kv) * h.D;
    return (size_t)(n_tokens * context->points.degree) *
           ((size_t)elements * tess_dtype_size(dtype) + (size_t)h.n * sizeof(float));
}

size_t tess_context_exchange_bytes(const tess_attention_params *p, const tess_context *context, int64_t n_tokens,
                                   tess_dtype dtype)
{
    if (p->n_kv_heads == 0)
        return 0;
    if (goes_round(context)) /* it exchanges sums of rows with sinks alone */
        return p->sinks >= 0 ? (size_t)(n_tokens * p->n_heads) * sizeof(float) : 0;
    const own_heads h = heads_of(context, p->n_heads, p->n_kv_heads, p->head_size, 0);
    const int64_t own = h.n * context->points.degree, all = p->n_heads;
    const int64_t most = !goes_by_heads(context) ? (p->n_kv_heads < context->points.degree ? h.n : own)
                         : own > all             ? own
                                                 : all;
    return (size_t)(n_tokens * most * p->head_size) * tess_dtype_size(dtype);
}

static int64_t tokens_of(const tess_layer_call *c)
{
    return c->T * c->context->points.degree;
}

static whole_tokens place(const tess_layer_call *c, const own_heads *h)
{
    const int64_t T = tokens_of(c), queries = T * h->n * h->D, keys = T * h->n_kv * h->D;
    whole_tokens w;
    void **const order[] = {&w.moved, &w.q, &w.out, &w.dq, &w.dout, &w.k, &w.v, &w.dk, &w.dv};
    int64_t at = 0;
    for (int i = 0; i < QUERIES + KEYS; at += i < QUERIES ? queries : keys, i++)
        *order[i] = tess_at(c, c->context_work, at);
    w.lse = tess_at(c, c->context_work, at);
    return w;
}

static int own_leaves(const tess_context *context, int *first)
{
    const int n = context->n_leaves / context->points.degree;
    *first = context->points.rank * n;
    return n;
}

static int64_t piece_tokens(const tess_layer_call *c)
{
    return tokens_of(c) / c->context->n_leaves;
}

/* Copies rows of n elements of leaves [first, first + count), which begin at row 0, between the order of leaves and
 * that of positions. */
static tess_status reorder(const tess_layer_call *c, size_t element, int64_t n, int first, int count, bool to_leaves,
                           const void *from, int64_t from_ld, void *to, int64_t to_ld)
{
    const int64_t size = (int64_t)element, rows = piece_tokens(c);
    for (int leaf = 0; leaf < count && n > 0; leaf++) {
        const int64_t piece = tess_context_piece(c->context, first + leaf), in = to_leaves ? piece : leaf,
                      out = to_leaves ? leaf : piece;
        TESS_TRY(tess_layer_copy_rows(c, size, rows, n, (const char *)from + in * rows * from_ld * size, from_ld,
                                      (char *)to + out * rows * to_ld * size, to_ld));
    }
    return TESS_OK;
}

static int64_t own_columns(const tess_context *context, tess_cut columns)
{
    int64_t begin, n;
    tess_cut_range(columns, context->points.degree, context->points.rank, &begin, &n);
    return n;
}

/* This rank's tokens of all columns, rows `ld` apart -> all tokens of this rank's columns. */
static tess_status bring(const tess_layer_call *c, const char *what, size_t element, tess_cut columns, const void *mine,
                         int64_t ld, void *moved, void *whole)
{
    const tess_context *context = c->context;
    const int64_t T = tokens_of(c), n = own_columns(context, columns);
    if (context->points.degree > 1) {
        TESS_TRY(tess_meet_over(&context->points, what, element,
                                (tess_matrix_box){{T, c->T}, {columns.size, 0}, mine, ld},
                                (tess_matrix_box){{T, 0}, columns, moved, n}));
        mine = moved;
        ld = n;
    }
    return reorder(c, element, n, 0, context->n_leaves, false, mine, ld, whole, n);
}

/* All tokens of this rank's columns -> this rank's tokens of all columns. If every rank has all columns, it keeps its
 * tokens. */
static tess_status send(const tess_layer_call *c, const char *what, size_t element, tess_cut columns, const void *whole,
                        void *moved, void *mine, int64_t ld)
{
    const tess_context *context = c->context;
    const int64_t T = tokens_of(c), n = own_columns(context, columns);
    int first, count = own_leaves(context, &first);
    if (context->points.degree == 1 || columns.unit == 0)
        return reorder(c, element, n, first, count, true, whole, n, mine, ld);
    TESS_TRY(reorder(c, element, n, 0, context->n_leaves, true, whole, n, moved, n));
    return tess_meet_over(&context->points, what, element, (tess_matrix_box){{T, 0}, columns, moved, n},
                          (tess_matrix_box){{T, c->T}, {columns.size, 0}, mine, ld});
}

static own_heads own_heads_of(const tess_layer_call *c, const tess_attention *a)
{
    return heads_of(c->context, a->n_heads, a->n_kv_heads, a->head_size, c->context->points.rank);
}

/* Brings q, k and v, and describes the attention of this rank's heads. */
static tess_status begin(const tess_layer_call *c, const tess_attention *a, const void *k, const void *v,
                         const own_heads *h, const whole_tokens *w, tess_attention *own)
{
    const size_t element = tess_dtype_size(c->dtype);
    TESS_TRY(bring(c, "queries", element, h->q, a->q, a->q_stride, w->moved, w->q));
    TESS_TRY(bring(c, "keys", element, h->kv, k, a->k_stride, w->moved, w->k));
    TESS_TRY(bring(c, "values", element, h->kv, v, a->v_stride, w->moved, w->v));
    *own = *a;
    own->n_heads = h->n;
    own->n_kv_heads = h->n_kv;
    own->sinks = a->sinks != NULL ? tess_at(c, a->sinks, h->first) : NULL;
    own->q = w->q;
    own->out = w->out;
    own->q_stride = own->out_stride = h->n * h->D;
    own->k_stride = own->v_stride = h->n_kv * h->D;
    own->lse = a->lse != NULL ? w->lse : NULL;
    tess_attention_sequences(c, w->k, w->v, own->k_stride, 0, c->seqs);
    return TESS_OK;
}

/* ---- Forward ---- */
static tess_status forward_by_heads(const tess_layer_call *c, const tess_attention *a, const void *k, const void *v)
{
    const own_heads h = own_heads_of(c, a);
    const whole_tokens w = place(c, &h);
    tess_attention own;
    TESS_TRY(begin(c, a, k, v, &h, &w, &own));
    if (h.n > 0)
        TESS_TRY(c->kernels->attention_forward(c->stream, &own));
    TESS_TRY(send(c, "outputs", tess_dtype_size(c->dtype), h.q, w.out, w.moved, a->out, a->out_stride));
    return a->lse != NULL ? send(c, "sums", sizeof(float), h.lse, w.lse, w.moved, a->lse, a->n_heads) : TESS_OK;
}

/* Describes the parts of sequences that have queries in this rank's leaves. The parts of a sequence are neighbours, in
 * the order of their positions, so that the kernel packs the sequence's keys once. Returns their number. */
static int64_t own_sequences(const tess_layer_call *c, const void *k, const void *v, int64_t stride)
{
    const int32_t *bounds = c->batch->cu_seqlens;
    const int64_t rows = piece_tokens(c);
    int64_t n = 0;
    int first, count = own_leaves(c->context, &first);
    for (int64_t i = 0; i < c->batch->n_seqs; i++)
        for (int64_t piece = rows > 0 ? bounds[i] / rows : 0; piece * rows < bounds[i + 1]; piece++) {
            const int64_t begin = piece * rows, end = begin + rows;
            const int64_t leaf = tess_context_leaf(c->context, (int)piece) - first;
            const int64_t from = bounds[i] > begin ? bounds[i] : begin, to = bounds[i + 1] < end ? bounds[i + 1] : end;
            if (leaf >= 0 && leaf < count && from < to)
                c->seqs[n++] = (tess_attention_seq){.q_begin = leaf * rows + from - begin,
                                                    .q_len = to - from,
                                                    .k_len = to - bounds[i],
                                                    .k = tess_at(c, k, bounds[i] * stride),
                                                    .v = tess_at(c, v, bounds[i] * stride)};
        }
    return n;
}

/* Attends with the query heads of one key head. */
static tess_status forward_group(const tess_layer_call *c, const tess_attention *a, const void *k, const void *v,
                                 int64_t kv)
{
    const own_heads h = own_heads_of(c, a);
    const whole_tokens w = place(c, &h);
    const size_t element = tess_dtype_size(c->dtype);
    const int64_t first = kv * h.n;
    tess_attention own = *a;
    TESS_TRY(bring(c, "keys", element, h.kv, tess_at(c, k, kv * h.D), a->k_stride, w.moved, w.k));
    TESS_TRY(bring(c, "values", element, h.kv, tess_at(c, v, kv * h.D), a->v_stride, w.moved, w.v));
    own.n_heads = h.n;
    own.n_kv_heads = 1;
    own.q = tess_at(c, a->q, first * h.D);
    own.out = tess_at(c, a->out, first * h.D);
    own.sinks = a->sinks != NULL ? tess_at(c, a->sinks, first) : NULL;
    own.k_stride = own.v_stride = h.D;
    own.lse = a->lse != NULL ? w.lse : NULL;
    own.n_seqs = own_sequences(c, w.k, w.v, h.D);
    own.most_keys = tokens_of(c);
    TESS_TRY(c->kernels->attention_forward(c->stream, &own));
    return a->lse != NULL ? tess_layer_copy_rows(c, sizeof(float), c->T, h.n, w.lse, h.n, a->lse + first, a->n_heads)
                          : TESS_OK;
}

tess_status tess_context_attention_forward(const tess_layer_call *c, const tess_attention *a, const void *k,
                                           const void *v)
{
    if (goes_by_heads(c->context))
        return forward_by_heads(c, a, k, v);
    if (goes_round(c->context))
        return tess_ring_attention_forward(c, a, k, v);
    for (int64_t kv = 0; kv < a->n_kv_heads; kv++)
        TESS_TRY(forward_group(c, a, k, v, kv));
    return TESS_OK;
}

/* ---- Backward ---- */
static int32_t longest_sequence(const tess_batch *batch)
{
    int32_t longest = 0;
    for (int64_t i = 0; i < batch->n_seqs; i++) {
        const int32_t length = batch->cu_seqlens[i + 1] - batch->cu_seqlens[i];
        longest = length > longest ? length : longest;
    }
    return longest;
}

/* Computes the gradients of the rows [g->key_begin, g->key_end). Sequences inside them take five products if the work
 * space has room for enough of them at a time, and seven otherwise. Other sequences want a part of their queries and a
 * part of their keys, and take seven. */
static tess_status backward_run(const tess_layer_call *c, const tess_attention_grad *g)
{
    const int32_t *bounds = c->batch->cu_seqlens;
    const int64_t n_seqs = c->batch->n_seqs;
    int64_t inside = 0, after;
    if (g->dsinks != NULL) /* they are sums over all rows */
        return c->kernels->attention_backward(c->stream, g);
    while (inside < n_seqs && bounds[inside] < g->key_begin)
        inside++;
    for (after = inside; after < n_seqs && bounds[after + 1] <= g->key_end;)
        after++;
    tess_attention_grad of = *g;
    of.forward.most_keys = longest_sequence(c->batch);
    of.forward.seqs = g->forward.seqs + inside;
    of.forward.n_seqs = after - inside;
    of.in_part = false;
    if (after > inside)
        TESS_TRY(c->kernels->attention_backward(c->stream, &of));
    of.in_part = true;
    of.forward.n_seqs = 1;
    of.forward.seqs = g->forward.seqs + inside - 1;
    if (inside > 0 && bounds[inside] > g->key_begin)
        TESS_TRY(c->kernels->attention_backward(c->stream, &of));
    of.forward.seqs = g->forward.seqs + after;
    return after < n_seqs && bounds[after] < g->key_end ? c->kernels->attention_backward(c->stream, &of) : TESS_OK;
}

/* Computes dq, dk and dv of this rank's rows. They are one or two runs of neighbours, because leaves are folded. The
 * first rank alone computes dsinks, which is a sum over all rows. */
static tess_status backward_own_rows(const tess_layer_call *c, tess_attention_grad *g)
{
    const tess_context *context = c->context;
    const int64_t rows = piece_tokens(c);
    int first, count = own_leaves(context, &first);
    g->in_part = true;
    g->head_end = g->forward.n_heads;
    g->dsinks = context->points.rank == 0 ? g->dsinks : NULL;
    for (int run = 0; run <= context->folded; run++) {
        int least = context->n_leaves, n = 0;
        for (int leaf = first + run; leaf < first + count; leaf += 1 + context->folded, n++) {
            const int piece = tess_context_piece(context, leaf);
            least = piece < least ? piece : least;
        }
        g->key_begin = g->query_begin = least * rows;
        g->key_end = g->query_end = (least + n) * rows;
        TESS_TRY(backward_run(c, g));
        g->dsinks = NULL;
    }
    return TESS_OK;
}

/* Computes the gradients for heads `h`. If every rank has all columns of these heads, each computes those of its rows.
 */
static tess_status backward_heads(const tess_layer_call *c, const tess_attention_grad *g, const void *k, const void *v,
                                  const own_heads *h)
{
    const tess_attention *a = &g->forward;
    const whole_tokens w = place(c, h);
    const size_t element = tess_dtype_size(c->dtype);
    const bool by_heads = goes_by_heads(c->context) || h->q.unit > 0;
    tess_attention_grad own = *g;
    TESS_TRY(begin(c, a, k, v, h, &w, &own.forward));
    TESS_TRY(bring(c, "outputs", element, h->q, a->out, a->out_stride, w.moved, w.out));
    TESS_TRY(bring(c, "gradient", element, h->q, g->dout, g->dout_stride, w.moved, w.dout));
    TESS_TRY(bring(c, "sums", sizeof(float), h->lse, a->lse, a->n_heads, w.moved, w.lse));
    own.dout = w.dout;
    own.dq = w.dq;
    own.dk = w.dk;
    own.dv = w.dv;
    own.dout_stride = own.dq_stride = h->n * h->D;
    own.dk_stride = own.dv_stride = h->n_kv * h->D;
    if (by_heads)
        own.forward.row_keys = c->context->row_tokens > 0 ? c->context->row_tokens : longest_sequence(c->batch);
    if (g->dsinks != NULL) { /* those of other ranks' heads are 0 here */
        TESS_TRY(tess_stream_fill(c->stream, g->dsinks, 0, (size_t)h->lse.size * sizeof(float)));
        own.dsinks = g->dsinks + h->first;
    }
    if (h->n > 0)
        TESS_TRY(by_heads ? c->kernels->attention_backward(c->stream, &own) : backward_own_rows(c, &own));
    TESS_TRY(send(c, "gradient", element, h->q, w.dq, w.moved, g->dq, g->dq_stride));
    TESS_TRY(send(c, "gradient", element, h->kv, w.dk, w.moved, g->dk, g->dk_stride));
    return send(c, "gradient", element, h->kv, w.dv, w.moved, g->dv, g->dv_stride);
}

/* Computes the gradients of heads `h`, of which the first key head is number `kv`: it becomes the first one. */
static tess_status backward_group(const tess_layer_call *c, const tess_attention_grad *g, const void *k, const void *v,
                                  int64_t kv, const own_heads *h)
{
    const int64_t first = kv * h->n, q = first * h->D, key = kv * h->D;
    tess_attention_grad group = *g;
    tess_attention *a = &group.forward;
    a->q = tess_at(c, a->q, q);
    a->out = tess_at(c, a->out, q);
    a->lse += first;
    a->sinks = a->sinks != NULL ? tess_at(c, a->sinks, first) : NULL;
    group.dout = tess_at(c, g->dout, q);
    group.dq = tess_at(c, g->dq, q);
    group.dk = tess_at(c, g->dk, key);
    group.dv = tess_at(c, g->dv, key);
    group.dsinks = g->dsinks != NULL ? g->dsinks + first : NULL;
    return backward_heads(c, &group, tess_at(c, k, key), tess_at(c, v, key), h);
}

tess_status tess_context_attention_backward(const tess_layer_call *c, const tess_attention_grad *g, const void *k,
                                            const void *v)
{
    const own_heads h = own_heads_of(c, &g->forward);
    const int64_t degree = c->context->points.degree;
    int64_t kv = 0;
    if (goes_by_heads(c->context))
        return backward_heads(c, g, k, v, &h);
    if (goes_round(c->context))
        return tess_ring_attention_backward(c, g, k, v);
    const own_heads each = one_each(c->context, h.n, h.D);
    for (; kv + degree <= g->forward.n_kv_heads; kv += degree)
        TESS_TRY(backward_group(c, g, k, v, kv, &each));
    for (; kv < g->forward.n_kv_heads; kv++)
        TESS_TRY(backward_group(c, g, k, v, kv, &h));
    return TESS_OK;
}
