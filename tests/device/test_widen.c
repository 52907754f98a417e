/* Rows of float16: on every table the bits of the reference's float32 rows with operands widened and results rounded.
 */
#include "device/finite.h"
#include "elementwise_test.h"

enum { T = 37, C = 45, F = 51, V = 301, HEADS = 6, KV_HEADS = 2, D = 8 };

/* An array of float16 with what it says in float32. */
typedef struct twin {
    uint16_t *half;
    float *wide;
    int64_t n;
} twin;

static twin make_twin(uint64_t stream, int64_t n, double std)
{
    twin t = {new_array(n, 2), new_array(n, 4), n};
    for (int64_t i = 0; i < n; i++) {
        uint32_t mixed = ((uint32_t)i * 7919u + (uint32_t)stream * 104729u) * 2654435761u;
        t.half[i] = tess_float_to_f16((float)(std * ((double)(mixed >> 16) / 32768 - 1)));
        t.wide[i] = tess_f16_to_float(t.half[i]);
    }
    return t;
}

static void free_twin(twin *t)
{
    free(t->half);
    free(t->wide);
}

/* The float16 has the float32 result, rounded. */
static void expect_rounded(const char *what, const twin *t)
{
    for (int64_t i = 0; i < t->n; i++)
        if (t->half[i] != tess_float_to_f16(t->wide[i]))
            test_fail(__FILE__, __LINE__, "%s[%lld] is %04x, float32 rounds to %04x", what, (long long)i, t->half[i],
                      tess_float_to_f16(t->wide[i]));
}

/* A table, and the reference. */
typedef struct scene {
    tess_stream *s, *want;
    const tess_kernels *k, *w;
} scene;

static bool open_scene(size_t v, scene *scene)
{
    if (strcmp(variants[v].level, "cuda") == 0 || (scene->s = open_variant(v)) == NULL)
        return false;
    scene->want = open_variant(0);
    scene->k = tess_stream_kernels(scene->s);
    scene->w = tess_stream_kernels(scene->want);
    return true;
}

static void close_scene(scene *scene)
{
    tess_stream_destroy(&scene->s);
    tess_stream_destroy(&scene->want);
}

/* ---- Products ---- */
static void product(const scene *x, const tess_gemm *sizes, bool narrows)
{
    twin a = make_twin(1, (sizes->m + 1) * (sizes->k + 1), 1), b = make_twin(2, (sizes->n + 1) * (sizes->k + 1), 1);
    twin bias = make_twin(3, sizes->n, 1), c = make_twin(4, sizes->m * sizes->ldc, 1);
    float *sums = copy_array(c.wide, c.n, TESS_F32);
    tess_gemm g = *sizes, w = *sizes;
    g.a = a.half, g.b = b.half, g.bias = bias.half, g.c = narrows ? (void *)c.half : sums;
    w.a = a.wide, w.b = b.wide, w.bias = bias.wide, w.c = c.wide;
    g.ab_dtype = TESS_F16, g.c_dtype = narrows ? TESS_F16 : TESS_F32;
    w.ab_dtype = w.c_dtype = TESS_F32;
    EXPECT_OK(x->k->gemm(x->s, &g));
    EXPECT_OK(x->w->gemm(x->want, &w));
    if (narrows)
        expect_rounded("c", &c);
    else
        EXPECT_SAME(sums, c.wide, (size_t)c.n);
    free(sums);
    free_twin(&a), free_twin(&b), free_twin(&bias), free_twin(&c);
}

static void products(const scene *x)
{
    /* The last takes more than one part of columns. */
    static const int64_t shapes[][3] = {{1, 1, 1}, {7, 33, 65}, {T, C, F}, {3, 70, 8200}};
    for (size_t i = 0; i < COUNT(shapes) * 8; i++) {
        const int64_t m = shapes[i / 8][0], n = shapes[i / 8][1], k = shapes[i / 8][2];
        bool trans_a = i & 1, trans_b = i & 2, narrows = i & 4;
        const tess_gemm g = {.m = m,
                             .n = n,
                             .k = k,
                             .lda = (trans_a ? m : k) + 1,
                             .ldb = (trans_b ? k : n) + 1,
                             .ldc = n + 3,
                             .trans_a = trans_a,
                             .trans_b = trans_b,
                             .accumulate = !narrows && trans_a};
        product(x, &g, narrows);
    }
}

static void fused_products(const scene *x)
{
    for (int way = 0; way < 3; way++) {
        twin a = make_twin(1, T * C, 1), b = make_twin(2, C * F, 1), c = make_twin(3, T * F, 1);
        twin gate = make_twin(4, T * F, 1), up = make_twin(5, T * F, 1), y = make_twin(6, T * F, 1);
        tess_gemm_fused f = {.g = {.m = T,
                                   .n = F,
                                   .k = C,
                                   .a = a.half,
                                   .lda = C,
                                   .b = b.half,
                                   .ldb = F,
                                   .c = c.half,
                                   .ldc = F,
                                   .ab_dtype = TESS_F16,
                                   .c_dtype = TESS_F16},
                             .then = way == 2   ? TESS_THEN_ACT_BACKWARD
                                     : way == 1 ? TESS_THEN_ACT
                                                : TESS_THEN_NOTHING,
                             .n_terms = way == 0,
                             .terms = {{a.half, C, b.half, F, C}},
                             .gate = gate.half,
                             .up = up.half,
                             .y = y.half};
        tess_gemm_fused w = f;
        f.work = new_array((int64_t)tess_gemm_fused_work(T, F, way == 0, f.then, TESS_F16), 1);
        w.work = new_array((int64_t)tess_gemm_fused_work(T, F, way == 0, f.then, TESS_F32), 1);
        w.g.a = w.terms[0].a = a.wide, w.g.b = w.terms[0].b = b.wide, w.g.c = c.wide;
        w.g.ab_dtype = w.g.c_dtype = TESS_F32;
        w.gate = gate.wide, w.up = up.wide, w.y = y.wide;
        EXPECT_OK(x->k->gemm_fused(x->s, &f));
        if (way == 0) { /* the sum of both terms is rounded once */
            EXPECT_OK(x->w->gemm_fused(x->want, &w));
            expect_rounded("c", &c);
        } else { /* the activation's operand is rounded first */
            EXPECT_OK(x->w->gemm(x->want, &w.g));
            for (int64_t i = 0; i < c.n; i++)
                c.wide[i] = tess_f16_to_float(tess_float_to_f16(c.wide[i]));
            EXPECT_OK(
                x->w->glu_forward(x->want, gate.wide, way == 1 ? c.wide : up.wide, F, y.wide, T, F, f.act, TESS_F32));
            expect_rounded("y", &y);
        }
        if (way == 2) {
            EXPECT_OK(x->w->glu_backward(x->want, gate.wide, up.wide, F, c.wide, gate.wide, up.wide, F, T, F, f.act,
                                         TESS_F32));
            expect_rounded("dgate", &gate);
            expect_rounded("dup", &up);
        }
        free(f.work);
        free(w.work);
        free_twin(&a), free_twin(&b), free_twin(&c), free_twin(&gate), free_twin(&up), free_twin(&y);
    }
}

/* ---- Attention: q, k and v side by side, two sequences ---- */
static void attention(const scene *x)
{
    enum { Q = HEADS * D, KV = KV_HEADS * D, ROW = Q + 2 * KV };
    twin qkv = make_twin(1, T * ROW, 1), out = make_twin(2, T * Q, 1), dout = make_twin(3, T * Q, 1);
    twin dqkv = make_twin(4, T * ROW, 1);
    float lse[2][T * HEADS];
    tess_attention_seq seqs[2][2];
    for (int w = 0; w < 2; w++)
        for (int i = 0; i < 2; i++) {
            int64_t begin = i * 20, n = i == 0 ? 20 : T - 20, at = begin * ROW;
            seqs[w][i] = (tess_attention_seq){begin,
                                              n,
                                              n,
                                              w ? (void *)(qkv.wide + at + Q) : qkv.half + at + Q,
                                              w ? (void *)(qkv.wide + at + Q + KV) : qkv.half + at + Q + KV,
                                              NULL};
        }
    tess_attention a = {.n_seqs = 2,
                        .seqs = seqs[0],
                        .n_heads = HEADS,
                        .n_kv_heads = KV_HEADS,
                        .head_size = D,
                        .window = 9,
                        .scale = 0.3f,
                        .q = qkv.half,
                        .out = out.half,
                        .q_stride = ROW,
                        .k_stride = ROW,
                        .v_stride = ROW,
                        .out_stride = Q,
                        .lse = lse[0],
                        .dtype = TESS_F16};
    tess_attention b = a;
    b.seqs = seqs[1], b.q = qkv.wide, b.out = out.wide, b.lse = lse[1], b.dtype = TESS_F32;
    EXPECT_OK(x->k->attention_forward(x->s, &a));
    EXPECT_OK(x->w->attention_forward(x->want, &b));
    expect_rounded("out", &out);
    EXPECT_SAME(lse[0], lse[1], (size_t)T * HEADS);
    for (int64_t i = 0; i < out.n; i++)
        out.wide[i] = tess_f16_to_float(out.half[i]);
    const tess_attention_grad g = {dout.half, dqkv.half, dqkv.half + Q, dqkv.half + Q + KV, Q, ROW, ROW, ROW};
    const tess_attention_grad w = {dout.wide, dqkv.wide, dqkv.wide + Q, dqkv.wide + Q + KV, Q, ROW, ROW, ROW};
    EXPECT_OK(x->k->attention_backward(x->s, &a, &g));
    EXPECT_OK(x->w->attention_backward(x->want, &b, &w));
    expect_rounded("dqkv", &dqkv);
    int32_t page = 0;
    seqs[0][0].pages = &page;
    EXPECT_FAILS(x->k->attention_forward(x->s, &a), TESS_E_UNSUPPORTED, "keys in pages");
    free_twin(&qkv), free_twin(&out), free_twin(&dout), free_twin(&dqkv);
}

/* ---- Norms ---- */
static void norms(const scene *x)
{
    twin h = make_twin(1, T * C, 1), r = make_twin(2, T * C, 1), w = make_twin(3, C, 1), b = make_twin(4, C, 1);
    twin sum = make_twin(5, T * C, 1), y = make_twin(6, T * C, 1);
    float rstd[2][T], mean[2][T], dw[2][C], db[2][C];
    EXPECT_OK(x->k->rmsnorm_forward(x->s, h.half, r.half, sum.half, w.half, y.half, rstd[0], T, C, 1e-5f, TESS_F16));
    EXPECT_OK(x->w->add(x->want, h.wide, r.wide, sum.wide, T * C, TESS_F32));
    expect_rounded("h", &sum);
    for (int64_t i = 0; i < sum.n; i++)
        sum.wide[i] = tess_f16_to_float(sum.half[i]);
    EXPECT_OK(x->w->rmsnorm_forward(x->want, sum.wide, NULL, NULL, w.wide, y.wide, rstd[1], T, C, 1e-5f, TESS_F32));
    expect_rounded("rms y", &y);
    EXPECT_OK(x->k->layernorm_forward(x->s, h.half, r.half, sum.half, w.half, b.half, y.half, mean[0], rstd[0], T, C,
                                      1e-5f, TESS_F16));
    EXPECT_OK(x->w->layernorm_forward(x->want, sum.wide, NULL, NULL, w.wide, b.wide, y.wide, mean[1], rstd[1], T, C,
                                      1e-5f, TESS_F32));
    expect_rounded("layer y", &y);
    EXPECT_SAME(rstd[0], rstd[1], (size_t)T);
    twin dy = make_twin(7, T * C, 1);
    EXPECT_OK(x->k->layernorm_backward(x->s, sum.half, w.half, mean[0], rstd[0], dy.half, r.half, y.half, dw[0], db[0],
                                       T, C, TESS_F16));
    EXPECT_OK(x->w->layernorm_backward(x->want, sum.wide, w.wide, mean[1], rstd[1], dy.wide, r.wide, y.wide, dw[1],
                                       db[1], T, C, TESS_F32));
    expect_rounded("layer dx", &y);
    EXPECT_SAME(dw[0], dw[1], (size_t)C);
    EXPECT_SAME(db[0], db[1], (size_t)C);
    EXPECT_OK(x->k->rmsnorm_backward(x->s, sum.half, w.half, rstd[0], dy.half, NULL, y.half, dw[0], T, C, TESS_F16));
    EXPECT_OK(x->w->rmsnorm_backward(x->want, sum.wide, w.wide, rstd[1], dy.wide, NULL, y.wide, dw[1], T, C, TESS_F32));
    expect_rounded("rms dx", &y);
    EXPECT_SAME(dw[0], dw[1], (size_t)C);
    free_twin(&h), free_twin(&r), free_twin(&w), free_twin(&b), free_twin(&sum), free_twin(&y), free_twin(&dy);
}

/* ---- Elements, tables, sums ---- */
static void elements(const scene *x)
{
    twin a = make_twin(1, T * C, 2), b = make_twin(2, T * C, 2), y = make_twin(3, T * C, 1);
    int64_t n = T * C;
    EXPECT_OK(x->k->add(x->s, a.half, b.half, y.half, n, TESS_F16));
    EXPECT_OK(x->w->add(x->want, a.wide, b.wide, y.wide, n, TESS_F32));
    expect_rounded("add", &y);
    EXPECT_OK(x->k->scale(x->s, a.half, 0.37f, y.half, n, TESS_F16));
    EXPECT_OK(x->w->scale(x->want, a.wide, 0.37f, y.wide, n, TESS_F32));
    expect_rounded("scale", &y);
    EXPECT_OK(x->k->act_forward(x->s, a.half, y.half, n, TESS_ACT_GELU_TANH, TESS_F16));
    EXPECT_OK(x->w->act_forward(x->want, a.wide, y.wide, n, TESS_ACT_GELU_TANH, TESS_F32));
    expect_rounded("act", &y);
    EXPECT_OK(x->k->act_backward(x->s, a.half, b.half, y.half, n, TESS_ACT_GELU_ERF, TESS_F16));
    EXPECT_OK(x->w->act_backward(x->want, a.wide, b.wide, y.wide, n, TESS_ACT_GELU_ERF, TESS_F32));
    expect_rounded("dact", &y);

    enum { ROTARY = 6 };
    float cos_table[T * ROTARY / 2], sin_table[T * ROTARY / 2];
    int32_t ids[T], pos[T];
    for (int t = 0; t < T; t++) {
        ids[t] = t * 7 % T;
        pos[t] = T - 1 - t;
        for (int i = 0; i < ROTARY / 2; i++) {
            cos_table[t * ROTARY / 2 + i] = cosf((float)t / (float)(i + 1));
            sin_table[t * ROTARY / 2 + i] = sinf((float)t / (float)(i + 1));
        }
    }
    EXPECT_OK(x->k->rope(x->s, y.half, C, pos, cos_table, sin_table, T, 5, 8, ROTARY, false, TESS_F16));
    for (int64_t i = 0; i < n; i++)
        y.wide[i] = tess_f16_to_float(tess_float_to_f16(y.wide[i]));
    EXPECT_OK(x->w->rope(x->want, y.wide, C, pos, cos_table, sin_table, T, 5, 8, ROTARY, false, TESS_F32));
    expect_rounded("rope", &y);

    float sums[2][T * C];
    EXPECT_OK(x->k->embedding_forward(x->s, a.half, b.half, ids, pos, y.half, T, C, TESS_F16));
    EXPECT_OK(x->w->embedding_forward(x->want, a.wide, b.wide, ids, pos, y.wide, T, C, TESS_F32));
    expect_rounded("embedding", &y);
    EXPECT_OK(x->k->embedding_forward(x->s, a.half, NULL, ids, pos, y.half, T, C, TESS_F16));
    EXPECT_OK(x->w->embedding_forward(x->want, a.wide, NULL, ids, pos, y.wide, T, C, TESS_F32));
    expect_rounded("embedding without positions", &y);
    EXPECT_OK(x->k->embedding_backward(x->s, ids, b.half, sums[0], T, T, C, false, TESS_F16));
    EXPECT_OK(x->w->embedding_backward(x->want, ids, b.wide, sums[1], T, T, C, false, TESS_F32));
    EXPECT_SAME(sums[0], sums[1], (size_t)(T * C));
    EXPECT_OK(x->k->column_sum(x->s, a.half, C, sums[0], T, C - 2, TESS_F16));
    EXPECT_OK(x->w->column_sum(x->want, a.wide, C, sums[1], T, C - 2, TESS_F32));
    EXPECT_SAME(sums[0], sums[1], (size_t)(C - 2));

    int64_t first;
    EXPECT_OK(x->k->find_not_finite(x->s, a.half, TESS_F16, n, &first));
    EXPECT_INT(first, -1);
    a.half[n - 3] = 0x7c00;
    EXPECT_OK(x->k->find_not_finite(x->s, a.half, TESS_F16, n, &first));
    EXPECT_INT(first, n - 3);
    EXPECT_INT(tess_count_not_finite(a.half, TESS_F16, n), 1);
    EXPECT(tess_value_at(a.half, TESS_F16, first) == INFINITY);
    free_twin(&a), free_twin(&b), free_twin(&y);
}

/* Gradients in the place of the logits. */
static void losses(const scene *x)
{
    float *logits[2] = {random_array(1, T * V, 0, 2, TESS_F32), NULL}, logprob[2][T], entropy[2][T], g[T], h[T];
    int32_t targets[T];
    twin d = make_twin(2, T * V, 1);
    logits[1] = copy_array(logits[0], T * V, TESS_F32);
    for (int t = 0; t < T; t++) {
        targets[t] = t % 5 == 4 ? -1 : t * 11 % V;
        g[t] = -(float)t;
        h[t] = (float)(t % 3);
    }
    tess_cross_entropy a = {.n = T,
                            .V = V,
                            .logits = logits[0],
                            .ld = V,
                            .targets = targets,
                            .inv_temperature = 0.7f,
                            .dlogprob = g,
                            .dentropy = h,
                            .logprob = logprob[0],
                            .entropy = entropy[0],
                            .dlogits = logits[0],
                            .ldd = 2 * V,
                            .dtype = TESS_F16};
    tess_cross_entropy b = a;
    b.logits = logits[1], b.logprob = logprob[1], b.entropy = entropy[1], b.dlogits = d.wide, b.ldd = V;
    b.dtype = TESS_F32;
    EXPECT_OK(x->k->cross_entropy(x->s, &a));
    EXPECT_OK(x->w->cross_entropy(x->want, &b));
    for (int64_t t = 0; t < T; t++)
        memcpy(d.half + t * V, (uint16_t *)(void *)logits[0] + t * 2 * V, V * 2);
    expect_rounded("dlogits", &d);
    EXPECT_SAME(logprob[0], logprob[1], (size_t)T);
    EXPECT_SAME(entropy[0], entropy[1], (size_t)T);
    free(logits[0]);
    free(logits[1]);
    free_twin(&d);
}

static void float16_rows_are_float32_rows_that_are_rounded(void)
{
    void (*const rows[])(const scene *x) = {products, fused_products, attention, norms, elements, losses};
    for (size_t v = 0; v < COUNT(variants); v++) {
        scene scene;
        if (!open_scene(v, &scene))
            continue;
        for (size_t i = 0; i < COUNT(rows); i++)
            rows[i](&scene);
        close_scene(&scene);
    }
}

static const test_case cases[] = {
    CASE(float16_rows_are_float32_rows_that_are_rounded),
};

TEST_MAIN(cases)
