/* The definition of attention: one query row of one head at a time, in the order that every faster kernel follows.
 *
 * In BF16 the scores are float32 sums of exact products. Probabilities (and dS in the backward pass) are rounded to
 * bf16 before they are multiplied with another matrix, because the tile units of CPUs and GPUs need that. All sums are
 * float32. */
#include "device/ref/ref_attention.h"

#include "device/ref/vec_ref.h"
#include "device/stream_impl.h"
#include "device/vmath.h"

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

/* Computes one row. o (D) is work space. */
static void forward_row(const tess_attention *a, const tess_attention_seq *s, int64_t i, int64_t h, float *o)
{
    const int64_t D = a->head_size, G = a->n_kv_heads, kv_at = h / (a->n_heads / G) * D;
    const int64_t row = s->q_begin + i, p = s->k_len - s->q_len + i, lo = first_key(a, p);
    float m = a->sinks != NULL ? load(a->sinks, h, a->dtype) : -INFINITY, l = a->sinks != NULL ? 1 : 0;
    float score[TESS_ATTENTION_BLOCK];
    for (int64_t d = 0; d < D; d++)
        o[d] = 0;
    for (int64_t block = lo / TESS_ATTENTION_BLOCK; block * TESS_ATTENTION_BLOCK <= p; block++) {
        const int64_t base = block * TESS_ATTENTION_BLOCK;
        const int64_t k_at = tess_attention_block(a, s, base, a->k_stride) + kv_at;
        const int64_t v_at = tess_attention_block(a, s, base, a->v_stride) + kv_at;
        const int64_t begin = lo > base ? lo - base : 0;
        const int64_t end = p + 1 - base < TESS_ATTENTION_BLOCK ? p + 1 - base : TESS_ATTENTION_BLOCK;
        float m_new = m, sum[4] = {0}; /* sum[j % 4] includes key j of the block */
        for (int64_t j = begin; j < end; j++) {
            score[j] = a->scale * score_of(a, row * a->q_stride + h * D, s->k, k_at + j * a->k_stride);
            m_new = fmaxf(m_new, score[j]);
        }
        const float correction = v_exp(m - m_new);
        for (int64_t d = 0; d < D; d++)
            o[d] *= correction;
        for (int64_t j = begin; j < end; j++) {
            const float probability = v_exp(score[j] - m_new), rounded = round_to(probability, a->dtype);
            sum[j % 4] += probability;
            for (int64_t d = 0; d < D; d++)
                o[d] = fmaf(rounded, load(s->v, v_at + j * a->v_stride + d, a->dtype), o[d]);
        }
        l = fmaf(l, correction, (sum[0] + sum[1]) + (sum[2] + sum[3]));
        m = m_new;
    }
    for (int64_t d = 0; d < D; d++)
        store(a->out, row * a->out_stride + h * D + d, o[d] / l, a->dtype);
    if (a->lse != NULL)
        a->lse[row * a->n_heads + h] = m + v_log(l);
}

typedef struct forward_context {
    const tess_attention *a;
    float *scratch; /* (workers, D) */
} forward_context;

/* Computes heads. The rows of a head are written by one thread. */
static void forward_heads(void *context, int64_t begin, int64_t end, int worker)
{
    const forward_context *c = context;
    for (int64_t h = begin; h < end; h++)
        for (int64_t n = 0; n < c->a->n_seqs; n++)
            for (int64_t i = 0; i < c->a->seqs[n].q_len; i++)
                forward_row(c->a, &c->a->seqs[n], i, h, c->scratch + worker * c->a->head_size);
}

tess_status tess_ref_attention_forward(tess_stream *stream, const tess_attention *a)
{
    TESS_TRY(tess_attention_check(a, NULL));
    void *scratch;
    TESS_TRY(tess_stream_scratch(stream, sizeof(float) * (size_t)(tess_threads_count(stream->threads) * a->head_size),
                                 &scratch));
    forward_context context = {a, scratch};
    tess_threads_run(stream->threads, forward_heads, &context, a->n_heads, 1);
    return TESS_OK;
}

typedef struct backward_context {
    const tess_attention_grad *g;
    int64_t longest; /* tokens of the longest sequence */
    float *scratch;  /* (workers, (2 longest + 1) D): dk and dv of one head and sequence, dq of one row */
} backward_context;

/* Adds the contributions of query row i of head h to dk and dv, and writes the row's dq. */
static void backward_row(const backward_context *c, const tess_attention_seq *s, int64_t i, int64_t h, float *dk,
                         float *dv, float *dq)
{
    const tess_attention_grad *g = c->g;
    const tess_attention *a = &g->forward;
    const int64_t D = a->head_size, kv_at = h / (a->n_heads / a->n_kv_heads) * D, row = s->q_begin + i;
    const int64_t q_at = row * a->q_stride + h * D, dout_at = row * g->dout_stride + h * D;
    const float lse = a->lse[row * a->n_heads + h], inverse_cap = tess_score_cap_of(a).inverse;
    const float delta = dot(g->dout, dout_at, a->out, row * a->out_stride + h * D, D, a->dtype);
    for (int64_t d = 0; d < D; d++)
        dq[d] = 0;
    for (int64_t j = first_key(a, i); j <= i; j++) {
        const int64_t k_at = j * a->k_stride + kv_at, v_at = j * a->v_stride + kv_at;
        const float score = score_of(a, q_at, s->k, k_at), p = v_exp(a->scale * score - lse);
        const float slope = a->soft_cap != 0 ? v_soft_cap_slope(score, inverse_cap) : 1;
        const float ds = round_to(p * (dot(g->dout, dout_at, s->v, v_at, D, a->dtype) - delta) * slope, a->dtype);
        const float rounded = round_to(p, a->dtype);
        for (int64_t d = 0; d < D; d++) {
            dv[j * D + d] = fmaf(rounded, load(g->dout, dout_at + d, a->dtype), dv[j * D + d]);
            dk[j * D + d] = fmaf(ds, load(a->q, q_at + d, a->dtype), dk[j * D + d]);
            dq[d] = fmaf(ds, load(s->k, k_at + d, a->dtype), dq[d]);
        }
    }
    for (int64_t d = 0; d < D; d++)
        store(g->dq, row * g->dq_stride + h * D + d, a->scale * dq[d], a->dtype);
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
                const int64_t row = a->seqs[n].q_begin + i, at = h * a->head_size;
                const float delta =
                    dot(g->dout, row * g->dout_stride + at, a->out, row * a->out_stride + at, a->head_size, a->dtype);
                block = fmaf(-v_exp(sink - a->lse[row * a->n_heads + h]), delta, block);
            }
            sum += block;
        }
    return sum;
}

/* Computes key/value heads. Each writes its own dk and dv, and dq of its query heads. */
static void backward_heads(void *context, int64_t begin, int64_t end, int worker)
{
    const backward_context *c = context;
    const tess_attention *a = &c->g->forward;
    const int64_t D = a->head_size, n_rep = a->n_heads / a->n_kv_heads;
    float *dk = c->scratch + worker * (2 * c->longest + 1) * D, *dv = dk + c->longest * D, *dq = dv + c->longest * D;
    for (int64_t h = begin * n_rep; c->g->dsinks != NULL && h < end * n_rep; h++)
        c->g->dsinks[h] = sink_gradient(c->g, h);
    for (int64_t kv = begin; kv < end; kv++)
        for (int64_t n = 0; n < a->n_seqs; n++) {
            const tess_attention_seq *s = &a->seqs[n];
            memset(dk, 0, sizeof(float) * (size_t)(2 * c->longest * D));
            for (int64_t h = kv * n_rep; h < (kv + 1) * n_rep; h++)
                for (int64_t i = 0; i < s->q_len; i++)
                    backward_row(c, s, i, h, dk, dv, dq);
            for (int64_t j = 0; j < s->k_len; j++)
                for (int64_t d = 0; d < D; d++) {
                    store(c->g->dk, (s->q_begin + j) * c->g->dk_stride + kv * D + d, a->scale * dk[j * D + d],
                          a->dtype);
                    store(c->g->dv, (s->q_begin + j) * c->g->dv_stride + kv * D + d, dv[j * D + d], a->dtype);
                }
        }
}

tess_status tess_ref_attention_backward(tess_stream *stream, const tess_attention_grad *g)
{
    const tess_attention *a = &g->forward;
    TESS_TRY(tess_attention_check(a, g));
    backward_context context = {.g = g};
    for (int64_t n = 0; n < a->n_seqs; n++)
        if (a->seqs[n].k_len > context.longest)
            context.longest = a->seqs[n].k_len;
    const int64_t row_floats = (2 * context.longest + 1) * a->head_size;
    void *scratch;
    TESS_TRY(tess_stream_scratch(stream, sizeof(float) * (size_t)(tess_threads_count(stream->threads) * row_floats),
                                 &scratch));
    context.scratch = scratch;
    tess_threads_run(stream->threads, backward_heads, &context, a->n_kv_heads, 1);
    return TESS_OK;
}
