/* Attention if more ranks share a layer than it has key heads: the query heads of one key head are then on several
 * ranks.
 *
 * Every rank gathers all keys and values, and attends with its own query heads. A cache has all of them on every rank.
 * A gradient of keys or values is one sum over all query heads of its key head and their rows, so it is split by keys
 * instead. Every rank receives the queries, outputs and their gradients of all heads. It computes dk and dv of some
 * rows, and dq of its own heads. These rows and heads are independent of each other, so the bits are those of one rank.
 *
 * Each of t ranks receives (t - 1) / t of: 2 T G D elements in forward; T (3 H + 2 G) D elements and T H floats in
 * backward; and 2 T D elements for each of its key heads. */
#include "nn/layers/layers.h"
#include "nn/layers/transformer_layer.h"

/* Numbers of heads in the whole layer, and this rank's query heads [first, first + n). */
typedef struct heads {
    int64_t H, G, D, first, n;
} heads;

static heads heads_of(const tess_layer_call *c)
{
    const tess_attention_params *p = c->own;
    heads h = {.H = p->q.out.size / p->head_size, .G = p->k.out.size / p->head_size, .D = p->head_size};
    tess_own_range(c, (tess_cut){h.H, 1}, &h.first, &h.n);
    return h;
}

/* Arrays of all heads, in work space: (T, H, D) and (T, G, D). */
typedef struct whole_heads {
    void *k, *v, *q, *out, *dout, *dq, *dk, *dv, *sinks;
} whole_heads;

static whole_heads place_whole(const tess_layer_call *c, const heads *h)
{
    const int64_t keys = c->T * h->G * h->D, queries = c->T * h->H * h->D;
    whole_heads all;
    void **const order[] = {&all.k, &all.v, &all.dk, &all.dv, &all.q, &all.out, &all.dout, &all.dq};
    for (int i = 0; i < 8; i++)
        *order[i] = tess_at(c, c->split.operands, i < 4 ? i * keys : 4 * keys + (i - 4) * queries);
    all.sinks = tess_at(c, c->split.operands, 4 * (keys + queries));
    return all;
}

/* Gathers the columns of all ranks. The rows of a rank's own columns are `ld` apart. */
static tess_status gather(const tess_layer_call *c, const char *what, tess_cut columns, size_t element,
                          const void *mine, int64_t ld, void *into)
{
    const tess_cut rows = {c->T, 0};
    return tess_meet(c, what, element, (tess_matrix_box){rows, columns, mine, ld},
                     (tess_matrix_box){rows, {columns.size, 0}, into, columns.size});
}

static tess_status gather_keys(const tess_layer_call *c, const tess_attention_tensors *t, const whole_heads *all)
{
    const size_t element = tess_dtype_size(c->dtype);
    const tess_attention_params *p = c->own;
    const int64_t ld = tess_head_strides_of(p).kv;
    TESS_TRY(gather(c, "keys", p->k.out, element, t->k, ld, all->k));
    return gather(c, "values", p->v.out, element, t->v, ld, all->v);
}

static tess_attention describe(const tess_layer_call *c, const heads *h)
{
    const tess_attention_params *p = c->own;
    return (tess_attention){.n_seqs = c->batch->n_seqs,
                            .seqs = c->seqs,
                            .n_heads = h->H,
                            .n_kv_heads = h->G,
                            .head_size = h->D,
                            .window = p->window,
                            .scale = p->scale,
                            .soft_cap = p->soft_cap,
                            .q_stride = h->H * h->D,
                            .out_stride = h->H * h->D,
                            .k_stride = h->G * h->D,
                            .v_stride = h->G * h->D,
                            .page_stride = c->batch->cache != NULL ? c->batch->cache->page_stride : 0,
                            .dtype = c->dtype};
}

/* Attends with query heads [begin, end), which have one key head. The kernel writes an lse for these heads only. */
static tess_status attend(const tess_layer_call *c, const tess_attention_tensors *t, const heads *h, tess_attention *a,
                          int64_t begin, int64_t end)
{
    const bool apart = t->lse != NULL && end - begin < h->n;
    const int64_t own = begin - h->first;
    a->n_heads = end - begin;
    a->n_kv_heads = 1;
    a->q = tess_at(c, t->q, own * h->D);
    const tess_attention_params *p = c->own;
    a->sinks = p->sinks >= 0 ? tess_at(c, c->w[p->sinks], own) : NULL;
    a->q_stride = tess_head_strides_of(p).q;
    a->out = tess_at(c, t->out, own * h->D);
    a->out_stride = h->n * h->D;
    a->lse = apart ? c->split.rstd : t->lse;
    TESS_TRY(c->kernels->attention_forward(c->stream, a));
    return apart ? tess_layer_copy_rows(c, sizeof(float), c->T, a->n_heads, a->lse, a->n_heads, t->lse + own, h->n)
                 : TESS_OK;
}

tess_status tess_shared_attention_forward(const tess_layer_call *c, const tess_attention_tensors *t)
{
    const heads h = heads_of(c);
    const whole_heads all = place_whole(c, &h);
    const int64_t per_key = h.H / h.G, last = h.first + h.n;
    TESS_TRY(gather_keys(c, t, &all));
    TESS_TRY(tess_cache_append(c, all.k, all.v, h.G * h.D));
    for (int64_t begin = h.first, end; begin < last; begin = end) {
        const int64_t kv = begin / per_key;
        end = (kv + 1) * per_key < last ? (kv + 1) * per_key : last;
        tess_attention_sequences(c, all.k, all.v, h.G * h.D, kv * h.D, c->seqs);
        tess_attention a = describe(c, &h);
        TESS_TRY(attend(c, t, &h, &a, begin, end));
    }
    return TESS_OK;
}

/* Sends this rank's rows of all key heads to the ranks that have the heads. */
static tess_status send_rows(const tess_layer_call *c, tess_cut columns, const void *whole, void *into)
{
    const tess_cut rows = {c->T, 1};
    int64_t first, n;
    tess_own_range(c, rows, &first, &n);
    return tess_meet(c, "gradient", tess_dtype_size(c->dtype),
                     (tess_matrix_box){rows, {columns.size, 0}, tess_at(c, whole, first * columns.size), columns.size},
                     (tess_matrix_box){{c->T, 0}, columns, into, tess_head_strides_of(c->own).kv});
}

tess_status tess_shared_attention_backward(const tess_layer_call *c, const tess_attention_tensors *t)
{
    const tess_attention_params *p = c->own;
    const heads h = heads_of(c);
    const whole_heads all = place_whole(c, &h);
    const int64_t element = (int64_t)tess_dtype_size(c->dtype);
    const int64_t own = h.n * h.D, ld = tess_head_strides_of(p).q;
    int64_t first, n;
    tess_own_range(c, (tess_cut){c->T, 1}, &first, &n);
    TESS_TRY(gather_keys(c, t, &all));
    TESS_TRY(gather(c, "queries", p->q.out, element, t->q, ld, all.q));
    TESS_TRY(gather(c, "outputs", p->q.out, element, t->out, own, all.out));
    TESS_TRY(gather(c, "gradient", p->q.out, element, t->dout, own, all.dout));
    TESS_TRY(gather(c, "sums", (tess_cut){h.H, 1}, sizeof(float), t->lse, h.n, c->split.rstd));
    if (p->sinks >= 0)
        TESS_TRY(tess_meet(c, "sinks", element, (tess_matrix_box){{1, 0}, {h.H, 1}, c->w[p->sinks], h.n},
                           (tess_matrix_box){{1, 0}, {h.H, 0}, all.sinks, h.H}));
    tess_attention_sequences(c, all.k, all.v, h.G * h.D, 0, c->seqs);
    tess_attention_grad grad = {.forward = describe(c, &h),
                                .dout = all.dout,
                                .dq = all.dq,
                                .dk = all.dk,
                                .dv = all.dv,
                                .dout_stride = h.H * h.D,
                                .dq_stride = h.H * h.D,
                                .dk_stride = h.G * h.D,
                                .dv_stride = h.G * h.D,
                                .in_part = true,
                                .head_begin = h.first,
                                .head_end = h.first + h.n,
                                .query_end = c->T,
                                .key_begin = first,
                                .key_end = first + n};
    grad.forward.sinks = p->sinks >= 0 ? all.sinks : NULL;
    grad.dsinks = p->sinks >= 0 ? t->dsinks : NULL;
    grad.forward.q = all.q;
    grad.forward.out = all.out;
    grad.forward.lse = c->split.rstd;
    TESS_TRY(c->kernels->attention_backward(c->stream, &grad));
    TESS_TRY(tess_layer_copy_rows(c, element, c->T, own, tess_at(c, all.dq, h.first * h.D), h.H * h.D, t->dq, ld));
    TESS_TRY(send_rows(c, p->k.out, all.dk, t->dk));
    return send_rows(c, p->v.out, all.dv, t->dv);
}
