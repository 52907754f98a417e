/* The plan: every activation of an executor in one block. The same code counts and places. */
#include "nn/executor_impl.h"

typedef struct cursor {
    char *base; /* NULL: only counts */
    size_t used;
} cursor;

static void *take(cursor *at, size_t count, size_t size)
{
    size_t bytes, end;
    if (__builtin_mul_overflow(count, size, &bytes) || __builtin_add_overflow(bytes, 63, &bytes) ||
        __builtin_add_overflow(at->used, bytes & ~(size_t)63, &end)) {
        at->used = SIZE_MAX;
        return NULL;
    }
    void *block = at->base != NULL ? at->base + at->used : NULL;
    at->used = end;
    return block;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

bool tess_executor_recomputes(const tess_executor_options *options, int64_t layer)
{
    return options->recompute == TESS_RECOMPUTE_FULL ||
           (options->recompute == TESS_RECOMPUTE_EVERY_N && layer % options->recompute_every == 0);
}

typedef struct sizes {
    size_t T, C, Q, K, H, G, F, V, element;
    bool train, gated, qk_norm, layer_norm;
} sizes;

static sizes sizes_of(const tess_executor *e)
{
    const tess_model_config *c = &e->model->config;
    return (sizes){
        .T = (size_t)e->options.max_tokens,
        .C = (size_t)c->hidden_size,
        .Q = (size_t)(c->n_heads * c->head_size),
        .K = (size_t)(c->n_kv_heads * c->head_size),
        .H = (size_t)c->n_heads,
        .G = (size_t)c->n_kv_heads,
        .F = (size_t)c->intermediate_size,
        .V = (size_t)c->vocab_size,
        .element = tess_dtype_size(e->options.dtype),
        .train = e->options.train,
        .gated = e->model->layout.gate.weight >= 0,
        .qk_norm = c->qk_norm,
        .layer_norm = e->model->layout.layer_norm,
    };
}

/* a x b elements of the compute dtype, or floats; sizes are bounded by the config's check, so a x b does not overflow.
 */
static void *elements(cursor *at, const sizes *n, size_t width)
{
    return take(at, n->T * width, n->element);
}

static float *floats(cursor *at, const sizes *n, size_t width)
{
    return take(at, n->T * width, sizeof(float));
}

static tess_norm_stats take_stats(cursor *at, const sizes *n)
{
    tess_norm_stats stats = {NULL, NULL};
    if (!n->train)
        return stats;
    stats.rstd = floats(at, n, 1);
    if (n->layer_norm)
        stats.mean = floats(at, n, 1);
    return stats;
}

/* See tess_attention_rows: apart with q/k norms, else three parts of every row. */
static void take_qkv(cursor *at, const sizes *n, void **q, void **k, void **v)
{
    if (n->qk_norm) {
        *q = elements(at, n, n->Q);
        *k = elements(at, n, n->K);
        *v = elements(at, n, n->K);
        return;
    }
    char *row = elements(at, n, n->Q + 2 * n->K);
    *q = row;
    *k = row != NULL ? row + n->Q * n->element : NULL;
    *v = row != NULL ? row + (n->Q + n->K) * n->element : NULL;
}

static void take_attention(cursor *at, const sizes *n, tess_attention_saved *attention)
{
    take_qkv(at, n, &attention->q, &attention->k, &attention->v);
    attention->out = elements(at, n, n->Q);
    if (!n->train)
        return;
    attention->lse = floats(at, n, n->H);
    if (n->qk_norm) {
        attention->q_rstd = floats(at, n, n->H);
        attention->k_rstd = floats(at, n, n->G);
    }
}

static void take_mlp(cursor *at, const sizes *n, tess_mlp_saved *mlp)
{
    if (n->gated)
        mlp->gate = elements(at, n, n->F);
    mlp->up = elements(at, n, n->F);
}

static void take_attention_work(cursor *at, const sizes *n, tess_attention_work *work)
{
    if (n->qk_norm) {
        work->q = elements(at, n, n->Q);
        work->k = elements(at, n, n->K);
    }
    if (!n->train)
        return;
    work->dout = elements(at, n, n->Q);
    take_qkv(at, n, &work->dq, &work->dk, &work->dv);
}

/* All of a layer but its input. */
static tess_layer_saved take_layer(cursor *at, const sizes *n)
{
    tess_layer_saved saved = {0};
    saved.input_stats = take_stats(at, n);
    saved.mlp_stats = take_stats(at, n);
    saved.h2 = elements(at, n, n->C);
    take_attention(at, n, &saved.attention);
    take_mlp(at, n, &saved.mlp);
    return saved;
}

/* Work space of one phase at a time: attention, feed-forward, head. Without backward what a layer keeps lives only
 * inside its phase too. */
static void plan_phases(tess_executor *e, cursor *at, const sizes *n, tess_layer_saved *only)
{
    size_t start = at->used, most;
    if (only != NULL)
        take_attention(at, n, &only->attention);
    take_attention_work(at, n, &e->attention);
    most = at->used;

    at->used = start;
    if (only != NULL)
        take_mlp(at, n, &only->mlp);
    e->act = elements(at, n, n->F);
    most = larger(most, at->used);

    at->used = start;
    size_t chunk = (size_t)tess_head_chunk((int64_t)n->V), row = (size_t)tess_head_row((int64_t)n->V);
    chunk = n->T < chunk ? n->T : chunk;
    e->head.logits = take(at, chunk * row, sizeof(float));
    at->used = larger(most, at->used);
}

static void plan_layers(tess_executor *e, cursor *at, const sizes *n)
{
    int64_t n_layers = e->model->config.n_layers;
    if (!n->train) {
        tess_layer_saved only = {0};
        only.h = only.h2 = elements(at, n, n->C);
        plan_phases(e, at, n, &only);
        for (int64_t l = 0; l < n_layers && e->layers != NULL; l++)
            e->layers[l] = only;
        return;
    }
    bool have_shared = false;
    tess_layer_saved shared = {0};
    for (int64_t l = 0; l < n_layers; l++) {
        void *h = elements(at, n, n->C);
        tess_layer_saved saved;
        if (!tess_executor_recomputes(&e->options, l)) {
            saved = take_layer(at, n);
        } else {
            if (!have_shared)
                shared = take_layer(at, n);
            have_shared = true;
            saved = shared;
        }
        saved.h = h;
        if (e->layers != NULL)
            e->layers[l] = saved;
    }
    plan_phases(e, at, n, NULL);
}

static size_t fusing_bytes(const tess_executor *e, const sizes *n)
{
    int64_t T = (int64_t)n->T;
    size_t act = tess_gemm_fused_work(T, (int64_t)n->F, false, TESS_THEN_ACT_BACKWARD, e->options.dtype);
    return larger(act, tess_gemm_fused_work(T, (int64_t)n->C, true, TESS_THEN_NOTHING, e->options.dtype));
}

size_t tess_executor_plan(tess_executor *e, char *base)
{
    sizes n = sizes_of(e);
    cursor at = {base, 0};
    e->a = elements(&at, &n, n.C);
    e->b = elements(&at, &n, n.C);
    if (n.train) {
        e->c = elements(&at, &n, n.C);
        e->fusing = take(&at, fusing_bytes(e, &n), 1);
    }
    e->attention.fusing = e->fusing;
    e->final_stats = take_stats(&at, &n);
    e->attention.seqs = take(&at, n.T, sizeof(tess_attention_seq));
    if (e->model->layout.rope) {
        size_t count = (size_t)e->options.max_position * (size_t)(e->model->config.head_size / 2);
        e->cos_table = take(&at, count, sizeof(float));
        e->sin_table = take(&at, count, sizeof(float));
    }
    plan_layers(e, &at, &n);
    return at.used;
}
