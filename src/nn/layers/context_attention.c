/* Attention if ranks divide the tokens of a batch, or if its tokens lie in leaves (tess_context in nn/points.h).
 *
 * Each rank attends with some key heads and their query heads, over all tokens in the order of their positions: one
 * exchange turns a rank's tokens of all heads into all tokens of its heads, and another one turns the results back. So
 * the kernels, and the bits, are those of one rank without leaves. Ranks after the last key head only exchange.
 *
 * Each of c ranks receives (c - 1) / c of: (2 H + 2 G) D elements and H floats for each of its tokens in forward, and
 * (4 H + 4 G) D elements and H floats in backward. */
#include "device/device.h"
#include "nn/layers/layers.h"
#include "nn/layers/transformer_layer.h"

/* Query heads [first, first + n) and n_kv key heads of this rank. The cuts are those of a row's columns. */
typedef struct own_heads {
    tess_cut q, kv, lse;
    int64_t D, first, n, n_kv;
} own_heads;

static own_heads heads_of(int64_t H, int64_t G, int64_t D, int degree, int rank)
{
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
    const own_heads h = heads_of(p->n_heads, p->n_kv_heads, p->head_size, context->points.degree, 0);
    const int64_t elements = (QUERIES * h.n + KEYS * h.n_kv) * h.D;
    return (size_t)(n_tokens * context->points.degree) *
           ((size_t)elements * tess_dtype_size(dtype) + (size_t)h.n * sizeof(float));
}

size_t tess_context_exchange_bytes(const tess_attention_params *p, const tess_context *context, int64_t n_tokens,
                                   tess_dtype dtype)
{
    if (p->n_kv_heads == 0)
        return 0;
    const int degree = context->points.degree;
    const int64_t all = p->n_heads, own = heads_of(all, p->n_kv_heads, p->head_size, degree, 0).n * degree;
    return (size_t)(n_tokens * (own > all ? own : all) * p->head_size) * tess_dtype_size(dtype);
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

/* Copies rows of n elements between the order of leaves and that of positions. */
static tess_status reorder(const tess_layer_call *c, size_t element, int64_t n, bool to_leaves, const void *from,
                           int64_t from_ld, void *to, int64_t to_ld)
{
    const tess_context *context = c->context;
    const int64_t size = (int64_t)element, rows = tokens_of(c) / context->n_leaves;
    for (int leaf = 0; leaf < context->n_leaves && n > 0; leaf++) {
        const int64_t piece = tess_context_piece(context, leaf), in = to_leaves ? piece : leaf,
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
    return reorder(c, element, n, false, mine, ld, whole, n);
}

/* The opposite. */
static tess_status send(const tess_layer_call *c, const char *what, size_t element, tess_cut columns, const void *whole,
                        void *moved, void *mine, int64_t ld)
{
    const tess_context *context = c->context;
    const int64_t T = tokens_of(c), n = own_columns(context, columns);
    if (context->points.degree == 1)
        return reorder(c, element, n, true, whole, n, mine, ld);
    TESS_TRY(reorder(c, element, n, true, whole, n, moved, n));
    return tess_meet_over(&context->points, what, element, (tess_matrix_box){{T, 0}, columns, moved, n},
                          (tess_matrix_box){{T, c->T}, {columns.size, 0}, mine, ld});
}

static own_heads own_heads_of(const tess_layer_call *c, const tess_attention *a)
{
    const tess_points *points = &c->context->points;
    return heads_of(a->n_heads, a->n_kv_heads, a->head_size, points->degree, points->rank);
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

tess_status tess_context_attention_forward(const tess_layer_call *c, const tess_attention *a, const void *k,
                                           const void *v)
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

tess_status tess_context_attention_backward(const tess_layer_call *c, const tess_attention_grad *g, const void *k,
                                            const void *v)
{
    const tess_attention *a = &g->forward;
    const own_heads h = own_heads_of(c, a);
    const whole_tokens w = place(c, &h);
    const size_t element = tess_dtype_size(c->dtype);
    tess_attention_grad own = *g;
    TESS_TRY(begin(c, a, k, v, &h, &w, &own.forward));
    TESS_TRY(bring(c, "outputs", element, h.q, a->out, a->out_stride, w.moved, w.out));
    TESS_TRY(bring(c, "gradient", element, h.q, g->dout, g->dout_stride, w.moved, w.dout));
    TESS_TRY(bring(c, "sums", sizeof(float), h.lse, a->lse, a->n_heads, w.moved, w.lse));
    own.dout = w.dout;
    own.dq = w.dq;
    own.dk = w.dk;
    own.dv = w.dv;
    own.dout_stride = own.dq_stride = h.n * h.D;
    own.dk_stride = own.dv_stride = h.n_kv * h.D;
    if (g->dsinks != NULL) { /* those of other ranks' heads are 0 here */
        TESS_TRY(tess_stream_fill(c->stream, g->dsinks, 0, (size_t)a->n_heads * sizeof(float)));
        own.dsinks = g->dsinks + h.first;
    }
    if (h.n > 0)
        TESS_TRY(c->kernels->attention_backward(c->stream, &own));
    TESS_TRY(send(c, "gradient", element, h.q, w.dq, w.moved, g->dq, g->dq_stride));
    TESS_TRY(send(c, "gradient", element, h.kv, w.dk, w.moved, g->dk, g->dk_stride));
    return send(c, "gradient", element, h.kv, w.dv, w.moved, g->dv, g->dv_stride);
}
