/* Products with what follows them: every table gives the bits of the separate rows, at sizes around its tiles, with
 * streams of one and two threads. */
#include "support/test.h"

#include <stdlib.h>

#include "device/bf16.h"
#include "device/cuda_shim/cuda_shim_stream.h"
#include "device/stream.h"

static const char *const table_names[] = {"ref", "avx2", "avx512", "avx512_bf16", "amx", "cuda"};

typedef struct shape {
    int64_t m, n, k;
    bool trans_b;
} shape;

/* Rows: around half and whole tiles, around the rows that fallbacks take; k around a stretch of 4096; the last ones are
 * written past the caches. */
static const shape shapes[] = {{1, 1, 1, false},     {5, 33, 40, true},      {33, 64, 32, false},
                               {40, 31, 100, true},  {257, 96, 70, true},    {64, 40, 530, false},
                               {70, 64, 4200, true}, {1040, 512, 48, false}, {530, 1056, 65, true}};
enum { N_SHAPES = sizeof(shapes) / sizeof(shapes[0]), N_TABLES = sizeof(table_names) / sizeof(table_names[0]) };

static uint32_t seed = 7;

static void *draw(int64_t count, tess_dtype dtype)
{
    size_t bytes = ((size_t)count * tess_dtype_size(dtype) + 127) & ~(size_t)63;
    void *x = aligned_alloc(64, bytes);
    EXPECT(x != NULL);
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        float value = (float)(int32_t)seed * 0x1p-30f;
        if (dtype == TESS_F32)
            ((float *)x)[i] = value;
        else
            ((uint16_t *)x)[i] = tess_float_to_bf16(value);
    }
    return x;
}

static void *copy(const void *x, int64_t count, tess_dtype dtype)
{
    size_t bytes = (size_t)count * tess_dtype_size(dtype);
    void *y = aligned_alloc(64, (bytes + 127) & ~(size_t)63);
    EXPECT(y != NULL);
    return memcpy(y, x, bytes);
}

/* Operands, and what a call writes to. */
typedef struct problem {
    tess_gemm_fused f;
    void *factors[6], *bias, *c, *gate, *up, *y, *work;
    int64_t count;
    tess_dtype dtype;
} problem;

static problem problem_make(const shape *s, int n_terms, tess_then then, tess_activation act, bool gated,
                            tess_dtype dtype)
{
    problem p = {.count = s->m * s->n, .dtype = dtype, .f = {.n_terms = n_terms, .then = then, .act = act}};
    tess_gemm *g = &p.f.g;
    *g = (tess_gemm){.m = s->m, .n = s->n, .k = s->k, .lda = s->k, .ldc = s->n, .trans_b = s->trans_b};
    g->ldb = s->trans_b ? s->k : s->n;
    g->ab_dtype = g->c_dtype = dtype;
    for (int i = 0; i <= n_terms; i++) {
        int64_t k = s->k + 7 * i, ldb = s->trans_b ? k : s->n;
        p.factors[2 * i] = draw(s->m * k, dtype);
        p.factors[2 * i + 1] = draw(s->n * k, dtype);
        if (i > 0)
            p.f.terms[i - 1] = (tess_gemm_term){p.factors[2 * i], k, p.factors[2 * i + 1], ldb, k};
    }
    g->a = p.factors[0];
    g->b = p.factors[1];
    p.bias = draw(s->n, dtype);
    g->bias = n_terms == 0 ? p.bias : NULL;
    p.c = draw(p.count, dtype);
    p.gate = draw(p.count, dtype);
    p.up = draw(p.count, dtype);
    p.y = draw(p.count, dtype);
    if (!gated) {
        free(p.gate);
        p.gate = NULL;
    }
    size_t work = tess_gemm_fused_work(s->m, s->n, n_terms > 0, then, dtype);
    p.work = aligned_alloc(64, (work + 127) & ~(size_t)63);
    p.f.work = p.work;
    return p;
}

static void problem_free(problem *p)
{
    for (int i = 0; i < 6; i++)
        free(p->factors[i]);
    void *others[] = {p->bias, p->c, p->gate, p->up, p->y, p->work};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        free(others[i]);
}

/* ---- The definition: the separate rows, each over the whole matrix ---- */

static tess_status sum_terms(tess_stream *s, const tess_gemm_fused *f)
{
    tess_gemm g = f->g;
    g.c = draw(g.m * g.n, TESS_F32);
    g.c_dtype = TESS_F32;
    for (int i = 0; i <= f->n_terms; i++) {
        if (i > 0) {
            const tess_gemm_term *term = &f->terms[i - 1];
            g.a = term->a;
            g.lda = term->lda;
            g.b = term->b;
            g.ldb = term->ldb;
            g.k = term->k;
        }
        g.accumulate = i > 0;
        TESS_TRY(tess_stream_kernels(s)->gemm(s, &g));
    }
    tess_status status = tess_stream_kernels(s)->convert(
        s, &(tess_convert_args){.x = g.c, .from = TESS_F32, .y = f->g.c, .to = f->g.c_dtype, .n = g.m * g.n});
    free(g.c);
    return status;
}

static tess_status activate(tess_stream *s, const tess_gemm_fused *f, const void *x)
{
    int64_t m = f->g.m, n = f->g.n;
    if (f->gate != NULL)
        return tess_stream_kernels(s)->glu_forward(s, &(tess_glu_args){.gate = f->gate,
                                                                       .up = x,
                                                                       .stride = n,
                                                                       .y = f->y,
                                                                       .T = m,
                                                                       .F = n,
                                                                       .act = f->act,
                                                                       .dtype = f->g.c_dtype});
    return tess_stream_kernels(s)->act_forward(
        s, &(tess_act_args){.x = x, .y = f->y, .n = m * n, .act = f->act, .dtype = f->g.c_dtype});
}

static tess_status activate_backward(tess_stream *s, const tess_gemm_fused *f)
{
    int64_t m = f->g.m, n = f->g.n;
    TESS_TRY(activate(s, f, f->up));
    if (f->gate != NULL)
        return tess_stream_kernels(s)->glu_backward(s, &(tess_glu_grad_args){.gate = f->gate,
                                                                             .up = f->up,
                                                                             .stride = n,
                                                                             .dy = f->g.c,
                                                                             .dgate = f->gate,
                                                                             .dup = f->up,
                                                                             .dstride = n,
                                                                             .T = m,
                                                                             .F = n,
                                                                             .act = f->act,
                                                                             .dtype = f->g.c_dtype});
    return tess_stream_kernels(s)->act_backward(
        s,
        &(tess_act_grad_args){.x = f->up, .dy = f->g.c, .dx = f->up, .n = m * n, .act = f->act, .dtype = f->g.c_dtype});
}

static tess_status one_after_another(tess_stream *s, const tess_gemm_fused *f)
{
    if (f->n_terms > 0)
        return sum_terms(s, f);
    TESS_TRY(tess_stream_kernels(s)->gemm(s, &f->g));
    return f->then == TESS_THEN_NOTHING ? TESS_OK
           : f->then == TESS_THEN_ACT   ? activate(s, f, f->g.c)
                                        : activate_backward(s, f);
}

static tess_status without_y(tess_stream *s, const tess_gemm_fused *f)
{
    tess_gemm_fused unwanted = *f;
    unwanted.y = NULL;
    return tess_stream_kernels(s)->gemm_fused(s, &unwanted);
}

/* The four matrices after a call on copies of p's. */
typedef struct results {
    void *c, *gate, *up, *y;
} results;

static results compute(tess_stream *s, const problem *p, tess_status (*call)(tess_stream *, const tess_gemm_fused *))
{
    results r = {.c = copy(p->c, p->count, p->dtype), .y = copy(p->y, p->count, p->dtype)};
    r.up = copy(p->up, p->count, p->dtype);
    r.gate = p->gate != NULL ? copy(p->gate, p->count, p->dtype) : NULL;
    tess_gemm_fused f = p->f;
    f.g.c = r.c;
    f.gate = r.gate;
    f.up = r.up;
    f.y = r.y;
    EXPECT_OK(call(s, &f));
    return r;
}

static void results_free(results *r)
{
    free(r->c);
    free(r->gate);
    free(r->up);
    free(r->y);
}

static void expect_same(tess_stream *s, const problem *p, const results *got, const results *want)
{
    size_t n = (size_t)p->count, size = tess_dtype_size(p->dtype);
    char what[160];
    const struct {
        const char *name;
        const void *got, *want;
    } all[] = {
        {"c", got->c, want->c}, {"gate", got->gate, want->gate}, {"up", got->up, want->up}, {"y", got->y, want->y}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (all[i].got == NULL || (i == 0 && p->f.then == TESS_THEN_ACT_BACKWARD))
            continue; /* C is not kept */
        snprintf(what, sizeof(what), "%s: %s, m %d n %d k %d, terms %d, then %d, act %d", tess_stream_kernels(s)->name,
                 all[i].name, (int)p->f.g.m, (int)p->f.g.n, (int)p->f.g.k, p->f.n_terms, (int)p->f.then, (int)p->f.act);
        test_expect_same(__FILE__, __LINE__, what, all[i].got, all[i].want, n, size);
    }
}

/* ref does one row after another and has no stretches of k, and a GPU's threads take turns on the host: the smaller
 * products show all of them. */
static bool worth_computing(int table, const problem *p)
{
    const tess_kernels *kernels;
    bool is_cuda = strcmp(table_names[table], "cuda") == 0;
    return (is_cuda || tess_kernels_select(table_names[table], &kernels) == TESS_OK) &&
           ((table != 0 && !is_cuda) || p->f.g.m * p->f.g.n * p->f.g.k < 1000000);
}

static tess_stream *open_stream(int table, int n_threads)
{
    tess_stream *s;
    EXPECT_OK(strcmp(table_names[table], "cuda") == 0
                  ? cuda_shim_stream(test_mem(), false, &s)
                  : tess_stream_create(test_mem(), n_threads, table_names[table], &s));
    return s;
}

static void check(const problem *p)
{
    for (int table = 0; table < N_TABLES; table++) {
        for (int n_threads = 1; n_threads <= 2; n_threads++) {
            if (!worth_computing(table, p))
                continue;
            tess_stream *s = open_stream(table, n_threads);
            results got = compute(s, p, tess_stream_kernels(s)->gemm_fused), want = compute(s, p, one_after_another);
            expect_same(s, p, &got, &want);
            results_free(&got);
            results_free(&want);
            tess_stream_destroy(&s);
        }
    }
}

static void terms_add_up_as_products_do_one_after_another(void)
{
    for (int i = 0; i < N_SHAPES; i++) {
        for (int n_terms = 0; n_terms <= TESS_GEMM_TERMS; n_terms++) {
            problem p = problem_make(&shapes[i], n_terms, TESS_THEN_NOTHING, TESS_ACT_SILU, false, TESS_BF16);
            check(&p);
            problem_free(&p);
        }
    }
    problem p = problem_make(&shapes[3], 2, TESS_THEN_NOTHING, TESS_ACT_SILU, false, TESS_F32);
    check(&p);
    problem_free(&p);
}

static void activations_follow(tess_then then)
{
    for (int i = 0; i < N_SHAPES; i++) {
        for (int gated = 0; gated < 2; gated++) {
            tess_activation act = i % 3 == 0 ? TESS_ACT_SILU : i % 3 == 1 ? TESS_ACT_GELU_TANH : TESS_ACT_GELU_ERF;
            problem p = problem_make(&shapes[i], 0, then, act, gated, TESS_BF16);
            check(&p);
            problem_free(&p);
        }
    }
    problem p = problem_make(&shapes[4], 0, then, TESS_ACT_GELU_TANH, true, TESS_F32);
    check(&p);
    problem_free(&p);
}

static void activations_follow_products(void)
{
    activations_follow(TESS_THEN_ACT);
}

static void gradients_of_activations_follow_products(void)
{
    activations_follow(TESS_THEN_ACT_BACKWARD);
}

/* If y is not wanted, its gradient needs memory of its own, which only some rows have at a time. */
static void gradients_are_the_same_if_nobody_wants_the_activation(void)
{
    for (int i = 0; i < N_SHAPES; i++) {
        for (int gated = 0; gated < 2; gated++) {
            problem p = problem_make(&shapes[i], 0, TESS_THEN_ACT_BACKWARD, TESS_ACT_SILU, gated, TESS_BF16);
            for (int table = 0; table < N_TABLES; table++) {
                if (!worth_computing(table, &p))
                    continue;
                tess_stream *s = open_stream(table, 2);
                results want = compute(s, &p, tess_stream_kernels(s)->gemm_fused), got = compute(s, &p, without_y);
                free(got.y);
                got.y = NULL;
                expect_same(s, &p, &got, &want);
                results_free(&got);
                results_free(&want);
                tess_stream_destroy(&s);
            }
            problem_free(&p);
        }
    }
}

static void what_does_not_go_together_is_refused(void)
{
    tess_stream *s;
    EXPECT_OK(tess_stream_create(test_mem(), 1, NULL, &s));
    problem p = problem_make(&shapes[3], 1, TESS_THEN_NOTHING, TESS_ACT_SILU, false, TESS_BF16);
    p.f.g.c = p.c;
    p.f.g.bias = p.bias;
    EXPECT_FAILS(tess_stream_kernels(s)->gemm_fused(s, &p.f), TESS_E_INVALID, "further terms go with neither a bias");
    p.f.n_terms = 0;
    p.f.then = TESS_THEN_ACT;
    EXPECT_FAILS(tess_stream_kernels(s)->gemm_fused(s, &p.f), TESS_E_INVALID, "nowhere to write to");
    p.f.n_terms = 3;
    EXPECT_FAILS(tess_stream_kernels(s)->gemm_fused(s, &p.f), TESS_E_INVALID, "3 further terms");
    problem_free(&p);
    tess_stream_destroy(&s);
}

static const test_case cases[] = {
    CASE(terms_add_up_as_products_do_one_after_another), CASE(activations_follow_products),
    CASE(gradients_of_activations_follow_products),      CASE(gradients_are_the_same_if_nobody_wants_the_activation),
    CASE(what_does_not_go_together_is_refused),
};

TEST_MAIN(cases)
