/* The plan of memory: every activation of an executor in one block. The same code counts and places. */
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

typedef struct plan_sizes {
    size_t T, C, Q, K, H, G, F, V, element;
    bool train, gated, qk_norm, layer_norm;
} plan_sizes;

static plan_sizes sizes_of(const tess_executor *e)
{
    const tess_model_config *c = &e->model->config;
    return (plan_sizes){
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
        .gated = e->model->block.gate.weight >= 0,
        .qk_norm = c->qk_norm,
        .layer_norm = e->model->block.layer_norm,
    };
}

/* a x b elements of the compute dtype, or floats; sizes are bounded by the config's check, so a x b does not overflow.
 */
static void *elements(cursor *at, const plan_sizes *n, size_t width)
{
    return take(at, n->T * width, n->element);
}

static float *floats(cursor *at, const plan_sizes *n, size_t width)
{
    return take(at, n->T * width, sizeof(float));
}

static tess_norm_stats take_stats(cursor *at, const plan_sizes *n)
{
    tess_norm_stats stats = {NULL, NULL};
    if (!n->train)
        return stats;
    stats.rstd = floats(at, n, 1);
    if (n->layer_norm)
        stats.mean = floats(at, n, 1);
    return stats;
}

/* Separate tensors if q and k have norms, else three parts of each row. */
static void take_qkv(cursor *at, const plan_sizes *n, void **q, void **k, void **v)
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

static void take_attention(cursor *at, const plan_sizes *n, tess_layer_saved *saved)
{
    take_qkv(at, n, &saved->q_raw, &saved->k_raw, &saved->v);
    saved->q = saved->q_raw;
    saved->k = saved->k_raw;
    saved->out = elements(at, n, n->Q);
    if (!n->train)
        return;
    saved->lse = floats(at, n, n->H);
    if (n->qk_norm) {
        saved->q_rstd = floats(at, n, n->H);
        saved->k_rstd = floats(at, n, n->G);
    }
}

static void take_mlp(cursor *at, const plan_sizes *n, tess_layer_saved *saved)
{
    if (n->gated)
        saved->gate = elements(at, n, n->F);
    saved->up = elements(at, n, n->F);
}

/* All of a layer but its input. */
static tess_layer_saved take_layer(cursor *at, const plan_sizes *n)
{
    tess_layer_saved saved = {0};
    saved.input_stats = take_stats(at, n);
    saved.mlp_stats = take_stats(at, n);
    saved.h2 = elements(at, n, n->C);
    take_attention(at, n, &saved);
    take_mlp(at, n, &saved);
    return saved;
}

/* Work space of one phase at a time: attention, feed-forward, head. Without backward, what a layer saves (`only`) is
 * part of the work space of its phase. Normed q and k are work space of all layers. */
static void plan_phases(tess_executor *e, cursor *at, const plan_sizes *n, tess_layer_saved *only)
{
    size_t start = at->used, most;
    void *q = NULL, *k = NULL;
    if (only != NULL)
        take_attention(at, n, only);
    if (n->qk_norm) {
        q = elements(at, n, n->Q);
        k = elements(at, n, n->K);
    }
    if (n->train) {
        e->work.dout = elements(at, n, n->Q);
        take_qkv(at, n, &e->work.dq, &e->work.dk, &e->work.dv);
    }
    most = at->used;

    at->used = start;
    if (only != NULL)
        take_mlp(at, n, only);
    e->work.act = elements(at, n, n->F);
    most = larger(most, at->used);

    at->used = start;
    size_t chunk = (size_t)tess_head_chunk((int64_t)n->V), row = (size_t)tess_head_row((int64_t)n->V);
    chunk = n->T < chunk ? n->T : chunk;
    e->head.logits = take(at, chunk * row, sizeof(float));
    if (n->train) {
        e->head.entropy = floats(at, n, 1);
        e->head.dlogprob = floats(at, n, 1);
        e->head.dentropy = floats(at, n, 1);
    }
    at->used = larger(most, at->used);

    for (int64_t l = 0; l < e->model->config.n_layers && e->layers != NULL; l++) {
        if (only != NULL)
            e->layers[l] = *only;
        if (n->qk_norm) {
            e->layers[l].q = q;
            e->layers[l].k = k;
        }
    }
}

static void plan_layers(tess_executor *e, cursor *at, const plan_sizes *n)
{
    if (!n->train) {
        tess_layer_saved only = {0};
        only.h = only.h2 = elements(at, n, n->C);
        plan_phases(e, at, n, &only);
        return;
    }
    tess_layer_saved shared = {0};
    for (int64_t l = 0; l < e->model->config.n_layers; l++) {
        void *h = elements(at, n, n->C);
        tess_layer_saved saved;
        bool recomputes = e->options.recompute == TESS_RECOMPUTE_FULL ||
                          (e->options.recompute == TESS_RECOMPUTE_EVERY_N && l % e->options.recompute_every == 0);
        if (!recomputes) {
            saved = take_layer(at, n);
        } else {
            if (!shared.recompute)
                shared = take_layer(at, n);
            shared.recompute = true;
            saved = shared;
        }
        saved.h = h;
        if (e->layers != NULL)
            e->layers[l] = saved;
    }
    plan_phases(e, at, n, NULL);
}

size_t tess_executor_plan(tess_executor *e, char *base)
{
    plan_sizes n = sizes_of(e);
    cursor at = {base, 0};
    e->work.branch = elements(&at, &n, n.C);
    e->work.y = elements(&at, &n, n.C);
    if (n.train) {
        e->work.dh = elements(&at, &n, n.C);
        int64_t T = (int64_t)n.T;
        size_t act = tess_gemm_fused_work(T, (int64_t)n.F, false, TESS_THEN_ACT_BACKWARD, e->options.dtype);
        size_t sum = tess_gemm_fused_work(T, (int64_t)n.C, true, TESS_THEN_NOTHING, e->options.dtype);
        e->work.fusing = take(&at, larger(act, sum), 1);
    }
    e->final_stats = take_stats(&at, &n);
    e->work.seqs = take(&at, n.T, sizeof(tess_attention_seq));
    if (e->model->block.rope) {
        size_t count = (size_t)e->options.max_position * (size_t)(e->model->config.head_size / 2);
        e->cos_table = take(&at, count, sizeof(float));
        e->sin_table = take(&at, count, sizeof(float));
    }
    plan_layers(e, &at, &n);
    return at.used;
}
