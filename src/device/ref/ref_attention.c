/* The definition of attention: one query row of one head at a time, in the order that every faster kernel follows.
 *
 * In BF16 the scores are float32 sums of exact products. Probabilities (and dS in the backward pass) are rounded to
 * bf16 before they are multiplied with another matrix, because the tile units of CPUs and GPUs need that. All sums are
 * float32. */
#include "device/ref/ref_attention.h"

#include "device/ref/vec_ref.h"
#include "device/stream_impl.h"
#include "device/vmath.h"

typedef float real;
#define real_exp v_exp
#define real_fma fmaf
#define real_max fmaxf
#include "device/ref/online_softmax.h"

/* Checks a call that is one of several, which has a part of the keys or of the queries. */
static tess_status check_part(const tess_attention *a, const tess_attention_grad *g)
{
    const tess_attention_wanted wanted = g != NULL ? g->wanted : TESS_ATTENTION_QUERIES;
    TESS_CHECK(g == NULL || (wanted != TESS_ATTENTION_ALL && g->delta != NULL), TESS_E_INVALID,
               "attention backward: in parts it computes one kind of gradient, and needs delta");
    TESS_CHECK(a->state != NULL || wanted == TESS_ATTENTION_SINKS, TESS_E_INVALID,
               "attention backward: parts need a state");
    for (int64_t i = 0; i < a->n_seqs && wanted != TESS_ATTENTION_SINKS; i++) {
        const tess_attention_seq *s = &a->seqs[i];
        const int64_t begin = wanted == TESS_ATTENTION_KEYS ? s->k_len - s->q_len : s->k_begin;
        TESS_CHECK(s->q_len >= 0 && s->k_len >= s->q_len && s->k_len <= INT32_MAX && s->pages == NULL, TESS_E_INVALID,
                   "attention in parts: sequence %lld has %lld queries that end at key %lld", (long long)i,
                   (long long)s->q_len, (long long)s->k_len);
        TESS_CHECK(
            s->k_begin >= 0 && s->k_begin <= s->k_end && begin % TESS_ATTENTION_PART == 0, TESS_E_INVALID,
            "attention in parts: sequence %lld: keys %lld to %lld, queries %lld to %lld: parts begin at multiples "
            "of %d",
            (long long)i, (long long)s->k_begin, (long long)s->k_end, (long long)(s->k_len - s->q_len),
            (long long)s->k_len, TESS_ATTENTION_PART);
        TESS_CHECK(wanted == TESS_ATTENTION_KEYS || s->k_end == s->k_len || s->k_end % TESS_ATTENTION_PART == 0,
                   TESS_E_INVALID, "attention in parts: sequence %lld: keys that end at %lld of %lld", (long long)i,
                   (long long)s->k_end, (long long)s->k_len);
    }
    return TESS_OK;
}

tess_status tess_attention_check(const tess_attention *a, const tess_attention_grad *g)
{
    TESS_CHECK(a->dtype == TESS_F32 || a->dtype == TESS_BF16, TESS_E_UNSUPPORTED,
               "attention: dtype %s, only float32 and bfloat16", tess_dtype_name(a->dtype));
    TESS_CHECK(a->n_heads > 0 && a->n_kv_heads > 0 && a->n_heads % a->n_kv_heads == 0, TESS_E_INVALID,
               "attention: %lld query heads do not share %lld key/value heads evenly", (long long)a->n_heads,
               (long long)a->n_kv_heads);
    TESS_CHECK(a->head_size > 0 && a->window >= 0 && a->n_seqs >= 0, TESS_E_INVALID,
               "attention: head_size %lld, window %lld, %lld sequences", (long long)a->head_size, (long long)a->window,
               (long long)a->n_seqs);
    TESS_CHECK(a->scale > 0 && isfinite(a->scale), TESS_E_INVALID, "attention: scale %g is not positive",
               (double)a->scale);
    TESS_CHECK(a->soft_cap == 0 || (a->soft_cap > 0 && isfinite(a->soft_cap)), TESS_E_INVALID,
               "attention: a soft cap of %g; it is 0 (none) or above", (double)a->soft_cap);
    TESS_CHECK(g == NULL || g->dsinks == NULL || a->sinks != NULL, TESS_E_INVALID,
               "attention backward: a gradient of sinks without sinks");
    TESS_CHECK(g == NULL || a->lse != NULL, TESS_E_INVALID, "attention backward: needs the lse that forward wrote");
    if (a->state != NULL || (g != NULL && g->wanted != TESS_ATTENTION_ALL))
        return check_part(a, g);
    for (int64_t i = 0; i < a->n_seqs; i++) {
        const tess_attention_seq *s = &a->seqs[i];
        TESS_CHECK(s->q_len >= 0 && s->k_len >= s->q_len && s->k_len <= INT32_MAX, TESS_E_INVALID,
                   "attention: sequence %lld has %lld queries and %lld keys; each query needs its own key",
                   (long long)i, (long long)s->q_len, (long long)s->k_len);
        TESS_CHECK(g == NULL || s->k_len == s->q_len, TESS_E_INVALID,
                   "attention backward: sequence %lld has %lld queries and %lld keys; gradients are for training, "
                   "where they are equal",
                   (long long)i, (long long)s->q_len, (long long)s->k_len);
        TESS_CHECK(g == NULL || s->pages == NULL, TESS_E_INVALID,
                   "attention backward: the keys of sequence %lld lie in pages; gradients are for training",
                   (long long)i);
        TESS_CHECK(s->pages == NULL || a->page_stride > 0, TESS_E_INVALID,
                   "attention: the keys of sequence %lld lie in pages, which are %lld elements apart", (long long)i,
                   (long long)a->page_stride);
    }
    return TESS_OK;
}

static float load(const void *x, int64_t i, tess_dtype dtype)
{
    return dtype == TESS_F32 ? ((const float *)x)[i] : tess_bf16_to_float(((const uint16_t *)x)[i]);
}

static float round_to(float value, tess_dtype dtype)
{
    return dtype == TESS_F32 ? value : tess_bf16_to_float(tess_float_to_bf16(value));
}

/* Stores results that underflowed to -0 as 0, because kernels with tiles add zeros for keys that a row does not see. */
static void store(void *x, int64_t i, float value, tess_dtype dtype)
{
    if (dtype == TESS_F32)
        ((float *)x)[i] = value + 0.0f;
    else
        ((uint16_t *)x)[i] = tess_float_to_bf16(value + 0.0f);
}

static float dot(const void *x, int64_t x_at, const void *y, int64_t y_at, int64_t D, tess_dtype dtype)
{
    float sum = 0;
    for (int64_t d = 0; d < D; d++)
        sum = fmaf(load(x, x_at + d, dtype), load(y, y_at + d, dtype), sum);
    return sum;
}

/* Returns a score that is not scaled yet. */
static float score_of(const tess_attention *a, int64_t q_at, const void *k, int64_t k_at)
{
    const tess_score_cap c = tess_score_cap_of(a);
    const float score = dot(a->q, q_at, k, k_at, a->head_size, a->dtype);
    return c.cap != 0 ? v_soft_cap(score, c.cap, c.inverse) : score;
}

/* Returns the first key that a query at position `p` sees. */
static int64_t first_key(const tess_attention *a, int64_t p)
{
    return a->window > 0 && p + 1 > a->window ? p + 1 - a->window : 0;
}

/* Computes one row, or adds a part of its keys to its state. room (D + 2) is work space. */
static void forward_row(const tess_attention *a, const tess_attention_seq *s, int64_t i, int64_t h, float *room)
{
    const int64_t D = a->head_size, G = a->n_kv_heads, kv_at = h / (a->n_heads / G) * D;
    const int64_t row = s->q_begin + i, p = s->k_len - s->q_len + i, lo = first_key(a, p);
    const int64_t key_end = tess_attention_key_end(a, s), hi = p + 1 < key_end ? p + 1 : key_end;
    const int64_t first = lo > s->k_begin ? lo / TESS_ATTENTION_BLOCK * TESS_ATTENTION_BLOCK : s->k_begin;
    float *state = a->state != NULL ? a->state + (row * a->n_heads + h) * (D + 2) : room;
    float score[TESS_ATTENTION_BLOCK];
    if (a->state == NULL || s->first)
        softmax_begin(state, D, a->sinks != NULL, a->sinks != NULL ? load(a->sinks, h, a->dtype) : 0);
    for (int64_t base = first; base < hi; base += TESS_ATTENTION_BLOCK) {
        const int64_t k_at = tess_attention_block(a, s, base, a->k_stride) + kv_at;
        const int64_t v_at = tess_attention_block(a, s, base, a->v_stride) + kv_at;
        const int64_t begin = lo > base ? lo - base : 0;
        const int64_t end = hi - base < TESS_ATTENTION_BLOCK ? hi - base : TESS_ATTENTION_BLOCK;
        if (begin >= end)
            continue;
        for (int64_t j = begin; j < end; j++)
            score[j] = a->scale * score_of(a, row * a->q_stride + h * D, s->k, k_at + j * a->k_stride);
        softmax_merge(state, D, score, begin, end);
        for (int64_t j = begin; j < end; j++)
            for (int64_t d = 0; d < D; d++)
                softmax_add(state, d, round_to(score[j], a->dtype), load(s->v, v_at + j * a->v_stride + d, a->dtype));
    }
    if (a->state != NULL && !s->last)
        return;
    for (int64_t d = 0; d < D; d++)
        store(a->out, row * a->out_stride + h * D + d, softmax_result(state, d), a->dtype);
    if (a->lse != NULL)
        a->lse[row * a->n_heads + h] = state[SOFTMAX_M] + v_log(state[SOFTMAX_L]);
}

typedef struct forward_context {
    const tess_attention *a;
    float *scratch; /* (workers, D + 2) */
} forward_context;

/* Computes heads. The rows of a head are written by one thread. */
static void forward_heads(void *context, int64_t begin, int64_t end, int worker)
{
    const forward_context *c = context;
    for (int64_t h = begin; h < end; h++)
        for (int64_t n = 0; n < c->a->n_seqs; n++)
            for (int64_t i = 0; i < c->a->seqs[n].q_len; i++)
                forward_row(c->a, &c->a->seqs[n], i, h, c->scratch + worker * (c->a->head_size + 2));
}

tess_status tess_ref_attention_forward(tess_stream *stream, const tess_attention *a)
{
    TESS_TRY(tess_attention_check(a, NULL));
    void *scratch;
    TESS_TRY(tess_stream_scratch(
        stream, sizeof(float) * (size_t)(tess_threads_count(stream->threads) * (a->head_size + 2)), &scratch));
    forward_context context = {a, scratch};
    tess_threads_run(stream->threads, forward_heads, &context, a->n_heads, 1);
    return TESS_OK;
}

typedef struct backward_context {
    const tess_attention_grad *g;
    int64_t longest; /* keys of the longest sequence */
    float *scratch;  /* (workers, (2 longest + 1) D): dk and dv of each key of one head and sequence, dq of one row */
} backward_context;

/* Adds a query row's terms to dk and dv, and to dq; each may be NULL. The row is query i of head h. */
static void backward_row(const tess_attention_grad *g, const tess_attention_seq *s, int64_t i, int64_t h, float delta,
                         float *dk, float *dv, float *dq)
{
    const tess_attention *a = &g->forward;
    const int64_t D = a->head_size, kv_at = h / (a->n_heads / a->n_kv_heads) * D, row = s->q_begin + i;
    const int64_t q_at = row * a->q_stride + h * D, dout_at = row * g->dout_stride + h * D;
    const int64_t p = s->k_len - s->q_len + i, key_end = tess_attention_key_end(a, s), lo = first_key(a, p);
    const float lse = a->lse[row * a->n_heads + h], inverse_cap = tess_score_cap_of(a).inverse;
    for (int64_t key = lo > s->k_begin ? lo : s->k_begin; key <= p && key < key_end; key++) {
        const int64_t j = key - s->k_begin, k_at = j * a->k_stride + kv_at, v_at = j * a->v_stride + kv_at;
        const float score = score_of(a, q_at, s->k, k_at), probability = v_exp(a->scale * score - lse);
        const float slope = a->soft_cap != 0 ? v_soft_cap_slope(score, inverse_cap) : 1;
        const float ds =
            round_to(probability * (dot(g->dout, dout_at, s->v, v_at, D, a->dtype) - delta) * slope, a->dtype);
        const float rounded = round_to(probability, a->dtype);
        for (int64_t d = 0; d < D && dk != NULL; d++) {
            dv[j * 2 * D + d] = fmaf(rounded, load(g->dout, dout_at + d, a->dtype), dv[j * 2 * D + d]);
            dk[j * 2 * D + d] = fmaf(ds, load(a->q, q_at + d, a->dtype), dk[j * 2 * D + d]);
        }
        for (int64_t d = 0; d < D && dq != NULL; d++)
            dq[d] = fmaf(ds, load(s->k, k_at + d, a->dtype), dq[d]);
    }
}

static float delta_of(const tess_attention_grad *g, int64_t row, int64_t h)
{
    const tess_attention *a = &g->forward;
    const int64_t D = a->head_size;
    if (g->wanted == TESS_ATTENTION_KEYS || g->wanted == TESS_ATTENTION_SINKS)
        return g->delta[row * a->n_heads + h];
    return dot(g->dout, row * g->dout_stride + h * D, a->out, row * a->out_stride + h * D, D, a->dtype);
}

static void write_scaled(void *x, int64_t at, const float *sum, float scale, int64_t D, tess_dtype dtype)
{
    for (int64_t d = 0; d < D; d++)
        store(x, at + d, scale * sum[d], dtype);
}

/* Returns the gradient of a head's sink: each row adds -p delta, where p is the sink's probability. */
static float sink_gradient(const tess_attention_grad *g, int64_t h)
{
    const tess_attention *a = &g->forward;
    const float sink = load(a->sinks, h, a->dtype);
    float sum = 0;
    for (int64_t n = 0; n < a->n_seqs; n++)
        for (int64_t first = 0; first < a->seqs[n].q_len; first += TESS_NORM_BLOCK) {
            float block = 0;
            for (int64_t i = first; i < a->seqs[n].q_len && i < first + TESS_NORM_BLOCK; i++) {
                const int64_t row = a->seqs[n].q_begin + i;
                block = fmaf(-v_exp(sink - a->lse[row * a->n_heads + h]), delta_of(g, row, h), block);
            }
            sum += block;
        }
    return sum;
}

/* Computes the gradients of a sequence by a key head and its query heads. keys: dk and dv of each key; dq: of a row. */
static void backward_unit(const tess_attention_grad *g, const tess_attention_seq *s, int64_t kv, float *keys, float *dq)
{
    const tess_attention *a = &g->forward;
    const int64_t D = a->head_size, n_rep = a->n_heads / a->n_kv_heads;
    memset(keys, 0, sizeof(float) * (size_t)(2 * s->k_len * D));
    for (int64_t h = kv * n_rep; h < (kv + 1) * n_rep; h++)
        for (int64_t i = 0; i < s->q_len; i++) {
            memset(dq, 0, sizeof(float) * (size_t)D);
            backward_row(g, s, i, h, delta_of(g, s->q_begin + i, h), keys, keys + D, dq);
            write_scaled(g->dq, (s->q_begin + i) * g->dq_stride + h * D, dq, a->scale, D, a->dtype);
        }
    for (int64_t j = 0; j < s->k_len; j++) {
        write_scaled(g->dk, (s->q_begin + j) * g->dk_stride + kv * D, keys + j * 2 * D, a->scale, D, a->dtype);
        write_scaled(g->dv, (s->q_begin + j) * g->dv_stride + kv * D, keys + j * 2 * D + D, 1, D, a->dtype);
    }
}

/* Adds a part of the keys to the sums of dq. */
static void backward_queries(const tess_attention_grad *g, const tess_attention_seq *s, int64_t kv)
{
    const tess_attention *a = &g->forward;
    const int64_t D = a->head_size, n_rep = a->n_heads / a->n_kv_heads;
    for (int64_t h = kv * n_rep; h < (kv + 1) * n_rep; h++)
        for (int64_t row = s->q_begin; row < s->q_begin + s->q_len; row++) {
            float *dq = a->state + (row * a->n_heads + h) * D, *delta = &g->delta[row * a->n_heads + h];
            if (s->first)
                memset(dq, 0, sizeof(float) * (size_t)D);
            *delta = delta_of(g, row, h);
            backward_row(g, s, row - s->q_begin, h, *delta, NULL, NULL, dq);
            if (s->last)
                write_scaled(g->dq, row * g->dq_stride + h * D, dq, a->scale, D, a->dtype);
        }
}

/* Adds a part of the queries to the sums of dk and dv. keys: room for them. */
static void backward_keys(const tess_attention_grad *g, const tess_attention_seq *s, int64_t kv, float *keys)
{
    const tess_attention *a = &g->forward;
    const int64_t D = a->head_size, n = s->k_end - s->k_begin, n_rep = a->n_heads / a->n_kv_heads;
    const size_t bytes = sizeof(float) * (size_t)(2 * D);
    float *const state = a->state + (s->k_row * a->n_kv_heads + kv) * 2 * D;
    for (int64_t j = 0; j < n; j++)
        if (s->first)
            memset(keys + j * 2 * D, 0, bytes);
        else
            memcpy(keys + j * 2 * D, state + j * a->n_kv_heads * 2 * D, bytes);
    for (int64_t h = kv * n_rep; h < (kv + 1) * n_rep; h++)
        for (int64_t i = 0; i < s->q_len; i++)
            backward_row(g, s, i, h, delta_of(g, s->q_begin + i, h), keys, keys + D, NULL);
    for (int64_t j = 0; j < n; j++) {
        memcpy(state + j * a->n_kv_heads * 2 * D, keys + j * 2 * D, bytes);
        if (s->last) {
            write_scaled(g->dk, (s->k_row + j) * g->dk_stride + kv * D, keys + j * 2 * D, a->scale, D, a->dtype);
            write_scaled(g->dv, (s->k_row + j) * g->dv_stride + kv * D, keys + j * 2 * D + D, 1, D, a->dtype);
        }
    }
}

/* Computes key/value heads. Each writes its own dk and dv, and dq of its query heads. */
static void backward_heads(void *context, int64_t begin, int64_t end, int worker)
{
    const backward_context *c = context;
    const tess_attention_grad *g = c->g;
    const tess_attention *a = &g->forward;
    const int64_t D = a->head_size, n_rep = a->n_heads / a->n_kv_heads;
    float *keys = c->scratch + worker * (2 * c->longest + 1) * D, *dq = keys + 2 * c->longest * D;
    for (int64_t h = begin * n_rep; g->dsinks != NULL && h < end * n_rep; h++)
        g->dsinks[h] = sink_gradient(g, h);
    for (int64_t kv = begin; kv < end; kv++)
        for (int64_t n = 0; n < a->n_seqs; n++) {
            if (g->wanted == TESS_ATTENTION_ALL)
                backward_unit(g, &a->seqs[n], kv, keys, dq);
            else if (g->wanted == TESS_ATTENTION_QUERIES)
                backward_queries(g, &a->seqs[n], kv);
            else if (g->wanted == TESS_ATTENTION_KEYS)
                backward_keys(g, &a->seqs[n], kv, keys);
        }
}

tess_status tess_ref_attention_backward(tess_stream *stream, const tess_attention_grad *g)
{
    const tess_attention *a = &g->forward;
    TESS_TRY(tess_attention_check(a, g));
    backward_context context = {.g = g};
    for (int64_t n = 0; n < a->n_seqs; n++)
        if (tess_attention_key_end(a, &a->seqs[n]) - a->seqs[n].k_begin > context.longest)
            context.longest = tess_attention_key_end(a, &a->seqs[n]) - a->seqs[n].k_begin;
    const int64_t row_floats = (2 * context.longest + 1) * a->head_size;
    void *scratch;
    TESS_TRY(tess_stream_scratch(stream, sizeof(float) * (size_t)(tess_threads_count(stream->threads) * row_floats),
                                 &scratch));
    context.scratch = scratch;
    tess_threads_run(stream->threads, backward_heads, &context, a->n_kv_heads, 1);
    return TESS_OK;
}
