/* A call of attention with made-up operands, and what it has to give: from the definition, in float64, with how far a
 * kernel may be from it. */
#ifndef TESS_TESTS_DEVICE_ATTENTION_NAIVE_H
#define TESS_TESTS_DEVICE_ATTENTION_NAIVE_H

#include <math.h>
#include <stdlib.h>

#include "device/bf16.h"
#include "device/stream.h"
#include "support/test.h"

enum { MAX_SEQS = 6 };

typedef struct shape {
    int64_t H, G, D, window;
    int n_seqs;
    int64_t q_len[MAX_SEQS], extra[MAX_SEQS]; /* keys before the first query */
    float soft_cap;
    bool sinks, far_sinks; /* far: the sinks of the first heads are -30, 30 and -infinity */
} shape;

/* Inputs and outputs of one call; rows of k and v of all sequences follow each other, with NaN after each
 * sequence. */
typedef struct problem {
    shape s;
    tess_dtype dtype;
    tess_attention a;
    tess_attention_grad g; /* `forward` is not set: tests copy `a` there before the call */
    tess_attention_seq seqs[MAX_SEQS];
    int64_t T, K; /* rows of q, of k */
    size_t size;  /* bytes an element */
    char *q, *k, *v, *out, *dout, *dq, *dk, *dv, *sinks;
    float *lse, *dsinks;
} problem;

static uint64_t random_state = 1;

static float uniform(void)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (float)(int32_t)(random_state >> 32) * 0x1p-31f;
}

static void put(problem *p, char *x, int64_t i, float value)
{
    if (p->dtype == TESS_F32)
        ((float *)x)[i] = value;
    else
        ((uint16_t *)x)[i] = p->dtype == TESS_F16 ? tess_float_to_f16(value) : tess_float_to_bf16(value);
}

static double get(const problem *p, const char *x, int64_t i)
{
    return p->dtype == TESS_F32 ? ((const float *)x)[i] : tess_bf16_to_float(((const uint16_t *)x)[i]);
}

static void *take(size_t bytes)
{
    void *x = calloc(bytes + 1, 1);
    EXPECT(x != NULL);
    return x;
}

/* rows x width of `fill` times a uniform number; NaN between width and stride. */
static char *matrix(problem *p, int64_t rows, int64_t width, int64_t stride, float fill)
{
    char *x = take((size_t)(rows * stride) * p->size);
    for (int64_t i = 0; i < rows * stride; i++)
        put(p, x, i, i % stride < width ? fill * uniform() : NAN);
    return x;
}

static problem *problem_create(const shape *s, tess_dtype dtype)
{
    problem *p = take(sizeof(*p));
    p->s = *s;
    p->dtype = dtype;
    p->size = dtype == TESS_F32 ? 4 : 2;
    for (int i = 0; i < s->n_seqs; i++) {
        p->seqs[i].q_begin = p->T;
        p->seqs[i].q_len = s->q_len[i];
        p->seqs[i].k_len = s->q_len[i] + s->extra[i];
        p->T += s->q_len[i];
        p->K += p->seqs[i].k_len + 3;
    }
    const int64_t q_width = s->H * s->D, kv_width = s->G * s->D;
    p->a = (tess_attention){.n_seqs = s->n_seqs,
                            .seqs = p->seqs,
                            .n_heads = s->H,
                            .n_kv_heads = s->G,
                            .head_size = s->D,
                            .window = s->window,
                            .scale = 1.0f / sqrtf((float)s->D),
                            .soft_cap = s->soft_cap,
                            .q_stride = q_width + 5,
                            .k_stride = kv_width + 3,
                            .v_stride = kv_width + 7,
                            .out_stride = q_width + 2,
                            .dtype = dtype};
    p->q = matrix(p, p->T, q_width, p->a.q_stride, 3);
    p->k = matrix(p, p->K, kv_width, p->a.k_stride, 3);
    p->v = matrix(p, p->K, kv_width, p->a.v_stride, 1);
    p->out = matrix(p, p->T, q_width, p->a.out_stride, NAN);
    p->lse = take(sizeof(float) * (size_t)(p->T * s->H));
    p->g = (tess_attention_grad){
        .dout_stride = q_width + 1, .dq_stride = q_width + 4, .dk_stride = kv_width + 6, .dv_stride = kv_width + 1};
    p->dout = matrix(p, p->T, q_width, p->g.dout_stride, 1);
    p->dq = matrix(p, p->T, q_width, p->g.dq_stride, NAN);
    p->dk = matrix(p, p->T, kv_width, p->g.dk_stride, NAN);
    p->dv = matrix(p, p->T, kv_width, p->g.dv_stride, NAN);
    p->sinks = matrix(p, 1, s->H, s->H, 2);
    for (int64_t h = 0; s->far_sinks && h < 3; h++)
        put(p, p->sinks, h, (const float[]){-30, 30, -INFINITY}[h]);
    p->dsinks = take(sizeof(float) * (size_t)s->H);
    if (s->sinks) {
        p->a.sinks = p->sinks;
        p->g.dsinks = p->dsinks;
    }
    p->a.q = p->q;
    p->a.out = p->out;
    p->a.lse = p->lse;
    p->g.dout = p->dout;
    p->g.dq = p->dq;
    p->g.dk = p->dk;
    p->g.dv = p->dv;
    int64_t row = 0;
    for (int i = 0; i < s->n_seqs; i++) {
        p->seqs[i].k = p->k + (size_t)(row * p->a.k_stride) * p->size;
        p->seqs[i].v = p->v + (size_t)(row * p->a.v_stride) * p->size;
        for (int64_t extra = 0; extra < 3; extra++)
            for (int64_t c = 0; c < kv_width; c++) {
                put(p, p->k, (row + p->seqs[i].k_len + extra) * p->a.k_stride + c, NAN);
                put(p, p->v, (row + p->seqs[i].k_len + extra) * p->a.v_stride + c, NAN);
            }
        row += p->seqs[i].k_len + 3;
    }
    return p;
}

static void problem_destroy(problem *p)
{
    char *parts[] = {p->q,  p->k,  p->v,     p->out,         p->dout,          p->dq,
                     p->dk, p->dv, p->sinks, (char *)p->lse, (char *)p->dsinks};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        free(parts[i]);
    free(p);
}

/* ---- The reference -------------------------------------------------------------------------------------------------
 *
 * How far a kernel may be is derived from what it rounds. EPS is half an ulp of float32, u that of the dtype (0 for
 * float32, whose rounding EPS covers), D the head's size, n the keys of a row, P the normalized probabilities.
 *
 *     score     a sum of D products, scaled, less another:  EPS (D + 8) * the largest scale * sum |q| |k| of the row
 *     cap       the error of tanh, 6 ulp, more:             12 EPS cap; its slope 2 t dt: error of the score / cap
 *     p         exp's own error more, sums of n:            p (e + u), e = 2 (score + exp + n EPS); u: as an operand
 *     out       (e + u + n EPS) sum p |v|, and u |out| as it is stored
 *     lse       e, and its own rounding
 *     delta     sum |dout| (error of out, D EPS |out|)      (of stored outputs)
 *     dS        scale p (delta + D EPS sum |dout| |v|), and |dS| (2 e + u) as an operand
 *     dV        sum p (2 e + u) |dout|                      (p comes of lse here: an error of e more)
 *     dsink     sum p (delta's error + 2 e |delta|)         (p of the sink)
 *     dQ, dK    sum of dS's errors times |k|, |q|; sums of float32 and the storing as for out */
#define EPS 0x1p-24
#define SECOND_ORDER 1.02 /* products of the errors above */

/* A result and how far from it a kernel may be; dense rows. */
typedef struct estimate {
    double *value, *error;
} estimate;

typedef struct naive {
    estimate out, lse, dq, dk, dv, dsinks;
} naive;

static estimate estimate_create(int64_t n)
{
    return (estimate){take(sizeof(double) * (size_t)n), take(sizeof(double) * (size_t)n)};
}

static estimate estimate_at(estimate x, int64_t i)
{
    return (estimate){x.value + i, x.error + i};
}

/* The storing of n results rounds them, too. */
static void estimate_store(const problem *p, estimate x, int64_t n)
{
    const double u = p->dtype == TESS_BF16 ? 0x1p-8 : EPS;
    for (int64_t i = 0; i < n; i++)
        x.error[i] = SECOND_ORDER * (x.error[i] + u * fabs(x.value[i])) + 1e-37;
}

/* rows x width, dense. */
static double *dense(const problem *p, const void *x, int64_t rows, int64_t width, int64_t stride)
{
    double *y = take(sizeof(double) * (size_t)(rows * width));
    for (int64_t i = 0; i < rows * width; i++)
        y[i] = get(p, x, i / width * stride + i % width);
    return y;
}

static double dot(const double *x, const double *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

static double dot_of_magnitudes(const double *x, const double *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += fabs(x[i] * y[i]);
    return sum;
}

/* y += factor * x, where factor is off by as much as `error`. */
static void add_scaled(estimate y, double factor, double error, const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        y.value[i] += factor * x[i];
        y.error[i] += error * fabs(x[i]);
    }
}

/* A sequence's inputs and results, from its first row on. */
typedef struct naive_seq {
    double *q, *k, *v, *dout;
    estimate out, dq, dk, dv, dsinks;
} naive_seq;

/* One query of one head: its keys are [lo, hi). */
typedef struct naive_query {
    int64_t t, h, kv, lo, hi;
    double p_error; /* error of a probability in float32: e above */
    double *slope;  /* (keys) the soft cap's derivatives */
    double sink;    /* probability of the sink */
} naive_query;

/* prob (keys) = the probabilities; lse. */
static void naive_softmax(const problem *p, const naive_seq *s, naive_query *x, double *prob, estimate lse)
{
    const int64_t H = p->s.H, G = p->s.G, D = p->s.D, q_at = (x->t * H + x->h) * D;
    const double scale = (double)p->a.scale, exp_error = p->dtype == TESS_BF16 ? 3e-6 : 2 * EPS;
    const double cap = (double)p->a.soft_cap;
    double top = p->s.sinks ? get(p, p->sinks, x->h) : -INFINITY, sum = 0, largest = 0;
    for (int64_t j = x->lo; j < x->hi; j++) {
        const double *k = s->k + (j * G + x->kv) * D;
        prob[j] = scale * dot(s->q + q_at, k, D);
        x->slope[j] = cap > 0 ? 1 - pow(tanh(prob[j] / cap), 2) : 1;
        prob[j] = cap > 0 ? cap * tanh(prob[j] / cap) : prob[j];
        top = fmax(top, prob[j]);
        largest = fmax(largest, scale * dot_of_magnitudes(s->q + q_at, k, D));
    }
    sum = x->sink = p->s.sinks ? exp(get(p, p->sinks, x->h) - top) : 0;
    for (int64_t j = x->lo; j < x->hi; j++)
        sum += prob[j] = exp(prob[j] - top);
    for (int64_t j = x->lo; j < x->hi; j++)
        prob[j] /= sum;
    x->sink /= sum;
    x->p_error = 2 * (EPS * (double)(D + 8) * largest + 12 * EPS * cap + exp_error + EPS * (double)(x->hi - x->lo + 1));
    *lse.value = top + log(sum);
    *lse.error = SECOND_ORDER * (x->p_error + 4 * EPS * (1 + fabs(*lse.value)));
}

static void naive_forward(const problem *p, const naive_seq *s, const naive_query *x, const double *prob)
{
    const int64_t H = p->s.H, G = p->s.G, D = p->s.D;
    const double u = p->dtype == TESS_BF16 ? 0x1p-8 : 0, sums = EPS * (double)(x->hi - x->lo);
    const estimate out = estimate_at(s->out, (x->t * H + x->h) * D);
    for (int64_t j = x->lo; j < x->hi; j++)
        add_scaled(out, prob[j], prob[j] * (x->p_error + u + sums), s->v + (j * G + x->kv) * D, D);
    estimate_store(p, out, D);
}

static void naive_backward(const problem *p, const naive_seq *s, const naive_query *x, const double *prob)
{
    const int64_t H = p->s.H, G = p->s.G, D = p->s.D, q_at = (x->t * H + x->h) * D;
    const double *dout = s->dout + q_at, *out = s->out.value + q_at, scale = (double)p->a.scale;
    const double u = p->dtype == TESS_BF16 ? 0x1p-8 : 0, sums = EPS * (double)(p->T * (H / G));
    const double delta = dot(out, dout, D), D_eps = EPS * (double)D;
    const double delta_error =
        dot_of_magnitudes(s->out.error + q_at, dout, D) + D_eps * dot_of_magnitudes(out, dout, D);
    s->dsinks.value[x->h] -= x->sink * delta;
    s->dsinks.error[x->h] += x->sink * (delta_error + fabs(delta) * (2 * x->p_error + sums));
    for (int64_t j = x->lo; j < x->hi; j++) {
        const int64_t kv_at = (j * G + x->kv) * D;
        const double raw = scale * prob[j] * (dot(dout, s->v + kv_at, D) - delta), ds = raw * x->slope[j];
        const double p_error = 2 * x->p_error + u + sums;
        const double slope_error = p->a.soft_cap > 0 ? x->p_error / (double)p->a.soft_cap + 24 * EPS : 0;
        const double ds_error =
            scale * prob[j] * x->slope[j] * (delta_error + D_eps * dot_of_magnitudes(dout, s->v + kv_at, D)) +
            fabs(ds) * (p_error + 4 * EPS) + fabs(raw) * slope_error;
        add_scaled(estimate_at(s->dv, kv_at), prob[j], prob[j] * p_error, dout, D);
        add_scaled(estimate_at(s->dk, kv_at), ds, ds_error, s->q + q_at, D);
        add_scaled(estimate_at(s->dq, q_at), ds, ds_error, s->k + kv_at, D);
    }
}

/* One sequence. Gradients where every query has its key. */
static void naive_sequence(const problem *p, const tess_attention_seq *seq, const naive_seq *s, estimate lse)
{
    const int64_t H = p->s.H, window = p->s.window;
    double *prob = take(sizeof(double) * (size_t)seq->k_len), *slope = take(sizeof(double) * (size_t)seq->k_len);
    for (int64_t t = 0; t < seq->q_len; t++)
        for (int64_t h = 0; h < H; h++) {
            const int64_t hi = seq->k_len - seq->q_len + t + 1;
            naive_query x = {t, h, h / (H / p->s.G), window > 0 && hi > window ? hi - window : 0, hi, 0, slope, 0};
            naive_softmax(p, s, &x, prob, estimate_at(lse, t * H + h));
            naive_forward(p, s, &x, prob);
            if (seq->k_len == seq->q_len)
                naive_backward(p, s, &x, prob);
        }
    free(prob);
    free(slope);
}

/* Everything from the definition, in float64. */
static naive naive_run(const problem *p)
{
    const int64_t H = p->s.H, G = p->s.G, D = p->s.D, q_n = p->T * H * D, kv_n = p->T * G * D;
    double *q = dense(p, p->q, p->T, H * D, p->a.q_stride), *k = dense(p, p->k, p->K, G * D, p->a.k_stride);
    double *v = dense(p, p->v, p->K, G * D, p->a.v_stride), *dout = dense(p, p->dout, p->T, H * D, p->g.dout_stride);
    const naive n = {estimate_create(q_n),  estimate_create(p->T * H), estimate_create(q_n),
                     estimate_create(kv_n), estimate_create(kv_n),     estimate_create(H)};
    int64_t key_row = 0;
    for (int i = 0; i < p->s.n_seqs; i++) {
        const tess_attention_seq *seq = &p->seqs[i];
        const int64_t q_at = seq->q_begin * H * D, k_at = key_row * G * D, dk_at = seq->q_begin * G * D;
        const naive_seq s = {q + q_at,
                             k + k_at,
                             v + k_at,
                             dout + q_at,
                             estimate_at(n.out, q_at),
                             estimate_at(n.dq, q_at),
                             estimate_at(n.dk, dk_at),
                             estimate_at(n.dv, dk_at),
                             n.dsinks};
        naive_sequence(p, seq, &s, estimate_at(n.lse, seq->q_begin * H));
        key_row += seq->k_len + 3;
    }
    estimate_store(p, n.dq, q_n);
    estimate_store(p, n.dk, kv_n);
    estimate_store(p, n.dv, kv_n);
    for (int64_t h = 0; h < H; h++)
        n.dsinks.error[h] = SECOND_ORDER * n.dsinks.error[h] + EPS * fabs(n.dsinks.value[h]) + 1e-37;
    double *parts[] = {q, k, v, dout};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        free(parts[i]);
    return n;
}

static void naive_free(const naive *n)
{
    const estimate all[] = {n->out, n->lse, n->dq, n->dk, n->dv, n->dsinks};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        free(all[i].value);
        free(all[i].error);
    }
}

#endif
