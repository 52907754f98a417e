/* Rows of float16: on every table the bits of the reference's float32 rows with operands widened and results rounded.
 */
#include "device/finite.h"
#include "device/kernel_rows.h"
#include "elementwise_test.h"

enum { T = 37, C = 45, F = 51, V = 301, HEADS = 6, KV_HEADS = 2, D = 8, MOST_TWINS = 12 };

/* An array for the row of float16, and one in float32 for the reference. */
typedef struct twin {
    void *half; /* float16, or floats with its own values */
    float *wide;
    int64_t n;
    size_t size;
} twin;

/* A table, and the reference. */
typedef struct scene {
    tess_stream *s, *want;
    const tess_kernels *k, *w;
    twin twins[MOST_TWINS];
    int n;
} scene;

static uint16_t *make_half(scene *x, int64_t n, double std)
{
    twin t = {new_array(n, 2), new_array(n, 4), n, 2};
    uint16_t *half = t.half;
    for (int64_t i = 0; i < n; i++) {
        uint32_t mixed = ((uint32_t)i * 7919u + (uint32_t)(x->n + 1) * 104729u) * 2654435761u;
        half[i] = tess_float_to_f16((float)(std * ((double)(mixed >> 16) / 32768 - 1)));
        t.wide[i] = tess_f16_to_float(half[i]);
    }
    EXPECT(x->n < MOST_TWINS);
    x->twins[x->n++] = t;
    return half;
}

static float *make_floats(scene *x, int64_t n)
{
    float *floats = random_array((uint64_t)x->n, n, 0, 2, TESS_F32);
    EXPECT(x->n < MOST_TWINS);
    x->twins[x->n++] = (twin){floats, copy_array(floats, n, TESS_F32), n, 4};
    return floats;
}

static void free_twins(scene *x)
{
    for (int i = 0; i < x->n; i++) {
        free(x->twins[i].half);
        free(x->twins[i].wide);
    }
    x->n = 0;
}

static const twin *find_twin(const scene *x, const void *p)
{
    for (int i = 0; i < x->n; i++) {
        const twin *t = &x->twins[i];
        if ((const char *)p >= (char *)t->half && (const char *)p < (char *)t->half + (size_t)t->n * t->size)
            return t;
    }
    return NULL;
}

/* Returns the reference's memory for a pointer. */
static void *move(void *self, const void *p, tess_access access)
{
    const twin *t = find_twin(self, p);
    (void)access;
    return t != NULL ? t->wide + (size_t)((const char *)p - (char *)t->half) / t->size : (void *)(uintptr_t)p;
}

static float *wide_of(const scene *x, const void *p)
{
    return move((void *)(uintptr_t)x, p, TESS_READS);
}

/* The float16 has the float32 result, rounded, which is then the next row's input. Floats are equal. */
static void expect_rounded(const scene *x, const char *what, const void *p)
{
    const twin *t = find_twin(x, p);
    if (t->size == 4) {
        test_expect_same(__FILE__, __LINE__, what, t->half, t->wide, (size_t)t->n, t->size);
        return;
    }
    for (int64_t i = 0; i < t->n; i++) {
        uint16_t half = ((uint16_t *)t->half)[i];
        if (half != tess_float_to_f16(t->wide[i]))
            test_fail(__FILE__, __LINE__, "%s[%lld] is %04x, float32 rounds to %04x", what, (long long)i, half,
                      tess_float_to_f16(t->wide[i]));
        t->wide[i] = tess_f16_to_float(half);
    }
}

/* Computes the row in float16, and in float32 with the reference. All operands that are written are compared. */
static void expect_row(scene *x, tess_kernel_row_id id, const void *args)
{
    const tess_kernel_row *row = tess_kernel_row_of(id);
    void *wide = new_array((int64_t)tess_kernel_args_bytes(row, args), 1);
    tess_kernel_args_copy(row, args, move, x, wide);
    tess_kernel_set_dtype(wide, row->dtype_of, TESS_F32);
    EXPECT_OK(row->call(x->k, x->s, args));
    EXPECT_OK(row->call(x->w, x->want, wide));
    for (int i = 0; i < row->n_operands; i++) {
        const tess_operand *o = &row->operands[i];
        const void *p = tess_operand_pointer(args, o->at);
        char what[64];
        snprintf(what, sizeof(what), "%s %s", row->name, o->name);
        if (p != NULL && o->access & TESS_WRITES)
            expect_rounded(x, what, p);
    }
    free(wide);
}

/* ---- Products ---- */
static void products(scene *x)
{
    /* The last takes more than one part of columns. */
    static const int64_t shapes[][3] = {{1, 1, 1}, {7, 33, 65}, {T, C, F}, {3, 70, 8200}};
    for (size_t i = 0; i < COUNT(shapes) * 8; i++) {
        const int64_t m = shapes[i / 8][0], n = shapes[i / 8][1], k = shapes[i / 8][2];
        bool trans_a = i & 1, trans_b = i & 2, narrows = i & 4;
        tess_gemm g = {.m = m,
                       .n = n,
                       .k = k,
                       .a = make_half(x, (m + 1) * (k + 1), 1),
                       .lda = (trans_a ? m : k) + 1,
                       .b = make_half(x, (n + 1) * (k + 1), 1),
                       .ldb = (trans_b ? k : n) + 1,
                       .bias = make_half(x, n, 1),
                       .c = narrows ? (void *)make_half(x, m * (n + 3), 1) : make_floats(x, m * (n + 3)),
                       .ldc = n + 3,
                       .trans_a = trans_a,
                       .trans_b = trans_b,
                       .accumulate = !narrows && trans_a,
                       .ab_dtype = TESS_F16,
                       .c_dtype = narrows ? TESS_F16 : TESS_F32};
        tess_gemm w = g;
        w.a = wide_of(x, g.a), w.b = wide_of(x, g.b), w.bias = wide_of(x, g.bias), w.c = wide_of(x, g.c);
        w.ab_dtype = w.c_dtype = TESS_F32;
        EXPECT_OK(x->k->gemm(x->s, &g));
        EXPECT_OK(x->w->gemm(x->want, &w));
        expect_rounded(x, "c", g.c);
        free_twins(x);
    }
}

/* A fused product gives the bits of its rows. With further terms the sum of all is rounded once. */
static void fused_products(scene *x)
{
    for (int way = 0; way < 3; way++) {
        tess_gemm_fused f = {.g = {.m = T,
                                   .n = F,
                                   .k = C,
                                   .a = make_half(x, T * C, 1),
                                   .lda = C,
                                   .b = make_half(x, C * F, 1),
                                   .ldb = F,
                                   .c = make_half(x, T * F, 1),
                                   .ldc = F,
                                   .ab_dtype = TESS_F16,
                                   .c_dtype = TESS_F16},
                             .then = way == 2   ? TESS_THEN_ACT_BACKWARD
                                     : way == 1 ? TESS_THEN_ACT
                                                : TESS_THEN_NOTHING,
                             .n_terms = way == 0,
                             .gate = make_half(x, T * F, 1),
                             .up = make_half(x, T * F, 1),
                             .y = make_half(x, T * F, 1)};
        f.terms[0] = (tess_gemm_term){f.g.a, C, f.g.b, F, C};
        tess_gemm_fused w = f;
        w.g.a = w.terms[0].a = wide_of(x, f.g.a), w.g.b = w.terms[0].b = wide_of(x, f.g.b);
        w.g.c = wide_of(x, f.g.c), w.gate = wide_of(x, f.gate), w.up = wide_of(x, f.up), w.y = wide_of(x, f.y);
        w.g.ab_dtype = w.g.c_dtype = TESS_F32;
        f.work = new_array((int64_t)tess_gemm_fused_work(T, F, way == 0, f.then, TESS_F16), 1);
        w.work = new_array((int64_t)tess_gemm_fused_work(T, F, way == 0, f.then, TESS_F32), 1);
        EXPECT_OK(x->k->gemm_fused(x->s, &f));
        if (way == 0) {
            EXPECT_OK(x->w->gemm_fused(x->want, &w));
            expect_rounded(x, "c", f.g.c);
        } else { /* the activation's operand is rounded first */
            EXPECT_OK(x->w->gemm(x->want, &w.g));
            for (int64_t i = 0; i < T * F; i++)
                ((float *)w.g.c)[i] = tess_f16_to_float(tess_float_to_f16(((float *)w.g.c)[i]));
            const tess_glu_args y = {
                .gate = w.gate, .up = way == 1 ? w.g.c : w.up, .stride = F, .y = w.y, .T = T, .F = F};
            EXPECT_OK(x->w->glu_forward(x->want, &y));
            expect_rounded(x, "y", f.y);
        }
        if (way == 2) {
            const tess_glu_grad_args d = {.gate = w.gate,
                                          .up = w.up,
                                          .stride = F,
                                          .dy = w.g.c,
                                          .dgate = w.gate,
                                          .dup = w.up,
                                          .dstride = F,
                                          .T = T,
                                          .F = F};
            EXPECT_OK(x->w->glu_backward(x->want, &d));
            expect_rounded(x, "dgate", f.gate);
            expect_rounded(x, "dup", f.up);
        }
        free(f.work);
        free(w.work);
        free_twins(x);
    }
}

/* ---- Attention: q, k and v side by side, two sequences ---- */
static void attention(scene *x)
{
    enum { Q = HEADS * D, KV = KV_HEADS * D, ROW = Q + 2 * KV, FIRST = 20 };
    const uint16_t *qkv = make_half(x, T * ROW, 1), *keys = qkv + Q, *second = keys + FIRST * ROW;
    uint16_t *dqkv = make_half(x, T * ROW, 1);
    tess_attention_seq seqs[] = {{0, FIRST, FIRST, keys, keys + KV, NULL},
                                 {FIRST, T - FIRST, T - FIRST, second, second + KV, NULL}};
    const tess_attention a = {.n_seqs = 2,
                              .seqs = seqs,
                              .n_heads = HEADS,
                              .n_kv_heads = KV_HEADS,
                              .head_size = D,
                              .window = 9,
                              .scale = 0.3f,
                              .soft_cap = 2,
                              .sinks = make_half(x, HEADS, 1),
                              .q = qkv,
                              .out = make_half(x, T * Q, 1),
                              .q_stride = ROW,
                              .k_stride = ROW,
                              .v_stride = ROW,
                              .out_stride = Q,
                              .lse = make_floats(x, T * HEADS),
                              .dtype = TESS_F16};
    expect_row(x, TESS_ROW_attention_forward, &a);
    const tess_attention_grad g = {.forward = a,
                                   .dout = make_half(x, T * Q, 1),
                                   .dq = dqkv,
                                   .dk = dqkv + Q,
                                   .dv = dqkv + Q + KV,
                                   .dsinks = make_floats(x, HEADS),
                                   .dout_stride = Q,
                                   .dq_stride = ROW,
                                   .dk_stride = ROW,
                                   .dv_stride = ROW};
    expect_row(x, TESS_ROW_attention_backward, &g);
    tess_attention_grad rest = g; /* rows of the sequences that a call does not have keep their values */
    rest.forward.seqs = seqs + 1;
    rest.forward.n_seqs = 1;
    expect_row(x, TESS_ROW_attention_forward, &rest.forward);
    expect_row(x, TESS_ROW_attention_backward, &rest);
    int32_t page = 0;
    seqs[0].pages = &page;
    EXPECT_FAILS(x->k->attention_forward(x->s, &a), TESS_E_UNSUPPORTED, "keys in pages");
}

/* ---- Norms ---- */
/* h is the rounded sum, and is normalised as if it had been given. It may replace x. */
static void norms(scene *x)
{
    uint16_t *from = make_half(x, T * C, 1), *residual = make_half(x, T * C, 1), *h = make_half(x, T * C, 1);
    uint16_t *y = make_half(x, T * C, 1), *w = make_half(x, C, 1), *dy = make_half(x, T * C, 1), copy[2][T * C];
    tess_norm_args f = {.x = h,
                        .w = w,
                        .b = make_half(x, C, 1),
                        .y = y,
                        .mean = make_floats(x, T),
                        .rstd = make_floats(x, T),
                        .T = T,
                        .C = C,
                        .eps = 1e-5f,
                        .factor = 0.3f,
                        .one_plus_w = true,
                        .dtype = TESS_F16};
    tess_norm_grad_args g = {.h = h,
                             .w = w,
                             .mean = f.mean,
                             .rstd = f.rstd,
                             .dy = dy,
                             .dresidual = residual,
                             .dx = y,
                             .dbranch = make_half(x, T * C, 1),
                             .dw = make_floats(x, C),
                             .db = make_floats(x, C),
                             .T = T,
                             .C = C,
                             .factor = 0.3f,
                             .one_plus_w = true,
                             .dtype = TESS_F16};
    expect_row(x, TESS_ROW_add,
               &(tess_add_args){.a = from, .b = residual, .y = h, .n = T * C, .factor = 0.3f, .dtype = TESS_F16});
    expect_row(x, TESS_ROW_rmsnorm_forward, &f);
    expect_row(x, TESS_ROW_rmsnorm_backward, &g);
    expect_row(x, TESS_ROW_layernorm_forward, &f);
    memcpy(copy[0], h, sizeof(copy[0]));
    memcpy(copy[1], y, sizeof(copy[1]));
    f.x = from, f.residual = residual, f.h_out = from;
    EXPECT_OK(x->k->layernorm_forward(x->s, &f));
    test_expect_same(__FILE__, __LINE__, "h", from, copy[0], (size_t)(T * C), 2);
    test_expect_same(__FILE__, __LINE__, "y", y, copy[1], (size_t)(T * C), 2);
    expect_row(x, TESS_ROW_layernorm_backward, &g);
    g.dw = g.db = NULL;
    g.dx = dy;
    expect_row(x, TESS_ROW_layernorm_backward, &g);
    g.dresidual = NULL;
    expect_row(x, TESS_ROW_rmsnorm_backward, &g);
}

/* ---- Elements, tables, sums ---- */
static void elements(scene *x)
{
    enum { N = T * C, ROTARY = 6 };
    uint16_t *a = make_half(x, N, 2), *b = make_half(x, N, 2), *y = make_half(x, N, 1);
    const tess_dtype dtype = TESS_F16;
    expect_row(x, TESS_ROW_add, &(tess_add_args){.a = a, .b = b, .y = y, .n = N, .dtype = dtype});
    expect_row(x, TESS_ROW_scale, &(tess_scale_args){.x = a, .factor = 0.37f, .y = y, .n = N, .dtype = dtype});
    expect_row(x, TESS_ROW_act_forward,
               &(tess_act_args){.x = a, .y = y, .n = N, .act = TESS_ACT_GELU_TANH, .dtype = dtype});
    expect_row(x, TESS_ROW_act_backward,
               &(tess_act_grad_args){.x = a, .dy = b, .dx = y, .n = N, .act = TESS_ACT_GELU_ERF, .dtype = dtype});

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
    expect_row(x, TESS_ROW_rope,
               &(tess_rope_args){.x = y,
                                 .stride = C,
                                 .pos = pos,
                                 .cos_table = cos_table,
                                 .sin_table = sin_table,
                                 .T = T,
                                 .n_heads = 5,
                                 .D = 8,
                                 .R = ROTARY,
                                 .dtype = dtype});
    tess_embedding_args table = {
        .table = a, .positions = b, .ids = ids, .pos = pos, .out = y, .T = T, .C = C, .factor = 0.37f, .dtype = dtype};
    expect_row(x, TESS_ROW_embedding_forward, &table);
    table.positions = NULL;
    expect_row(x, TESS_ROW_embedding_forward, &table);
    expect_row(x, TESS_ROW_embedding_backward,
               &(tess_embedding_grad_args){
                   .ids = ids, .dout = b, .dtable = make_floats(x, N), .rows = T, .T = T, .C = C, .dtype = dtype});
    expect_row(
        x, TESS_ROW_column_sum,
        &(tess_column_sum_args){.dy = a, .stride = C, .db = make_floats(x, C), .T = T, .C = C - 2, .dtype = dtype});

    int64_t first;
    const tess_find_not_finite_args find = {.x = a, .dtype = dtype, .n = N, .first = &first};
    EXPECT_OK(x->k->find_not_finite(x->s, &find));
    EXPECT_INT(first, -1);
    a[N - 3] = 0x7c00;
    EXPECT_OK(x->k->find_not_finite(x->s, &find));
    EXPECT_INT(first, N - 3);
    EXPECT_INT(tess_count_not_finite(a, dtype, N), 1);
    EXPECT(tess_value_at(a, dtype, first) == INFINITY);
}

/* A part of a call has 2^20 elements of each operand. Here the parts do not divide the call, and results overwrite
 * their operands. */
static void parts_in_place(scene *x)
{
    enum { ROWS = 5, COLUMNS = 400001, STRIDE = 2 * COLUMNS + 3, N = COLUMNS * ROWS };
    uint16_t *gate = make_half(x, ROWS * STRIDE, 2), *y = make_half(x, N, 2);
    expect_row(x, TESS_ROW_glu_backward,
               &(tess_glu_grad_args){.gate = gate,
                                     .up = gate + COLUMNS,
                                     .stride = STRIDE,
                                     .dy = y,
                                     .dgate = gate,
                                     .dup = gate + COLUMNS,
                                     .dstride = STRIDE,
                                     .T = ROWS,
                                     .F = COLUMNS,
                                     .dtype = TESS_F16});
    expect_row(x, TESS_ROW_act_forward, &(tess_act_args){.x = y, .y = y, .n = N, .dtype = TESS_F16});
    int64_t first;
    y[N - 2] = 0x7c00;
    EXPECT_OK(
        x->k->find_not_finite(x->s, &(tess_find_not_finite_args){.x = y, .dtype = TESS_F16, .n = N, .first = &first}));
    EXPECT_INT(first, N - 2);
}

/* Gradients in the place of the logits, whose rows are twice as long in float16. */
static void losses(scene *x)
{
    float *logits[2] = {random_array(1, T * V, 0, 2, TESS_F32), NULL}, *d = new_array(T * V, 4), g[T], h[T];
    int32_t targets[T];
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
                            .logprob = make_floats(x, T),
                            .entropy = make_floats(x, T),
                            .dlogits = logits[0],
                            .ldd = 2 * V,
                            .dtype = TESS_F16};
    tess_cross_entropy b = a;
    b.logits = logits[1], b.logprob = wide_of(x, a.logprob), b.entropy = wide_of(x, a.entropy);
    b.dlogits = d, b.ldd = V, b.dtype = TESS_F32;
    EXPECT_OK(x->k->cross_entropy(x->s, &a));
    EXPECT_OK(x->w->cross_entropy(x->want, &b));
    expect_rounded(x, "logprob", a.logprob);
    expect_rounded(x, "entropy", a.entropy);
    for (int64_t i = 0; i < T * V; i++)
        EXPECT_INT(((uint16_t *)(void *)logits[0])[i / V * 2 * V + i % V], tess_float_to_f16(d[i]));
    free(logits[0]);
    free(logits[1]);
    free(d);
}

static void float16_rows_are_float32_rows_that_are_rounded(void)
{
    void (*const rows[])(scene * x) = {products, fused_products, attention, norms, elements, parts_in_place, losses};
    for (size_t v = 0; v < COUNT(variants); v++) {
        if (strcmp(variants[v].level, "cuda") == 0)
            continue;
        scene scene = {.s = open_variant(v), .want = open_variant(0)};
        for (size_t i = 0; i < COUNT(rows) && scene.s != NULL; i++) {
            scene.k = tess_stream_kernels(scene.s);
            scene.w = tess_stream_kernels(scene.want);
            rows[i](&scene);
            free_twins(&scene);
        }
        tess_stream_destroy(&scene.s);
        tess_stream_destroy(&scene.want);
    }
}

static const test_case cases[] = {
    CASE(float16_rows_are_float32_rows_that_are_rounded),
};

TEST_MAIN(cases)
