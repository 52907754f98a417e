/* The cases of kernels that multiply matrices: products, fused products, attention. */
#include <string.h>

#include "verify/invariance_impl.h"
#include "base/mem/scoped.h"

enum {
    K = 131,
    N = 67,
    LEAF = 64,
    K2 = 45,
    H = 4,
    G = 2,
    D = 64,
    LENGTH = TESS_INVARIANCE_ITEMS,
    TEXT = 70,
    TEXT_H = 2,
    TEXT_D = 32
};

/* ---- Products: an item is a row of A and of C ---- */
/* arg[0]: B is stored (n,k); arg[1]: the leaf; arg[2]: A is stored (k,m); arg[3]: the product is added to C. */
static tess_status gemm(const invariance_call *c)
{
    const invariance_case *of = c->of;
    tess_gemm g = {.m = c->n,
                   .n = N,
                   .k = K,
                   .a = c->in[0],
                   .lda = K,
                   .b = c->consts[0],
                   .ldb = of->arg[0] != 0 ? K : N,
                   .c = c->out[0],
                   .ldc = N,
                   .bias = of->arg[3] != 0 ? NULL : c->consts[1],
                   .trans_b = of->arg[0] != 0,
                   .accumulate = of->arg[3] != 0,
                   .ab_dtype = of->in[0].dtype,
                   .c_dtype = of->out[0].dtype,
                   .leaf = of->arg[1]};
    if (g.accumulate)
        memcpy(c->out[0], c->in[1], (size_t)(c->n * N) * sizeof(float));
    if (of->arg[2] == 0)
        return c->kernels->gemm(c->stream, &g);
    TESS_AUTO(tess_mem_drop) char *a = NULL;
    size_t element = tess_dtype_size(g.ab_dtype);
    TESS_TRY(tess_mem_alloc(c->mem, TESS_POOL_MISC, (size_t)(c->n * K) * element, "invariance", (void **)&a));
    for (int64_t i = 0; i < c->n; i++)
        for (int64_t k = 0; k < K; k++)
            memcpy(a + (size_t)(k * c->n + i) * element, (const char *)c->in[0] + (size_t)(i * K + k) * element,
                   element);
    g.a = a;
    g.lda = c->n;
    g.trans_a = true;
    return c->kernels->gemm(c->stream, &g);
}

static tess_status run_fused(const invariance_call *c, tess_gemm_fused *f)
{
    size_t bytes = tess_gemm_fused_work(c->n, N, f->n_terms > 0, f->then, f->g.c_dtype);
    TESS_TRY(tess_mem_alloc(c->mem, TESS_POOL_MISC, bytes, "invariance", &f->work));
    tess_status status = c->kernels->gemm_fused(c->stream, f);
    tess_mem_free(c->mem, f->work);
    return status;
}

static tess_gemm_fused fused_of(const invariance_call *c)
{
    return (tess_gemm_fused){.g = {.m = c->n,
                                   .n = N,
                                   .k = K,
                                   .a = c->in[0],
                                   .lda = K,
                                   .b = c->consts[0],
                                   .ldb = K,
                                   .c = c->out[0],
                                   .ldc = N,
                                   .trans_b = true,
                                   .ab_dtype = c->of->dtype,
                                   .c_dtype = c->of->dtype},
                             .act = TESS_ACT_SILU};
}

static tess_status fused_act(const invariance_call *c)
{
    tess_gemm_fused f = fused_of(c);
    f.then = TESS_THEN_ACT;
    f.gate = c->in[1];
    f.up = c->out[0];
    f.y = c->out[1];
    return run_fused(c, &f);
}

/* The gradients replace gate and up. */
static tess_status fused_backward(const invariance_call *c)
{
    tess_gemm_fused f = fused_of(c);
    f.then = TESS_THEN_ACT_BACKWARD;
    f.g.c = NULL;
    for (int i = 0; i < 2; i++)
        memcpy(c->out[i], c->in[i + 1], (size_t)(c->n * N) * tess_dtype_size(c->of->dtype));
    f.gate = c->out[0];
    f.up = c->out[1];
    f.y = c->out[2];
    return run_fused(c, &f);
}

static tess_status fused_terms(const invariance_call *c)
{
    tess_gemm_fused f = fused_of(c);
    f.n_terms = 1;
    f.terms[0] = (tess_gemm_term){.a = c->in[1], .lda = K2, .b = c->consts[1], .ldb = K2, .k = K2};
    return run_fused(c, &f);
}

/* The rows are in two groups that have the same weights. */
static tess_status grouped(const invariance_call *c)
{
    tess_gemm_fused products[2] = {fused_of(c), fused_of(c)};
    const int64_t first = c->n / 3, size = (int64_t)tess_dtype_size(c->of->dtype);
    products[0].g.m = first;
    products[1].g.m = c->n - first;
    products[1].g.a = (const char *)c->in[0] + first * K * size;
    products[1].g.c = (char *)c->out[0] + first * N * size;
    return c->kernels->gemm_grouped(
        c->stream, &(tess_gemm_grouped){.products = products, .n_products = 2, .ab_dtype = c->of->dtype});
}

/* ---- Attention: an item is a query in one text ---- */
static tess_attention attention_of(const invariance_call *c, const tess_attention_seq *seqs, int64_t n_seqs)
{
    return (tess_attention){.n_seqs = n_seqs,
                            .seqs = seqs,
                            .n_heads = H,
                            .n_kv_heads = G,
                            .head_size = D,
                            .window = c->of->arg[0],
                            .scale = 0.125f,
                            .soft_cap = (float)c->of->arg[1],
                            .sinks = c->consts[2],
                            .q = c->in[0],
                            .out = c->out[0],
                            .q_stride = H * D,
                            .k_stride = G * D,
                            .v_stride = G * D,
                            .out_stride = H * D,
                            .lse = c->out[1],
                            .dtype = c->of->dtype};
}

/* Computes attention. Consecutive queries form one sequence with several queries, as in a chunk of a prompt. Other
 * queries form sequences of one query each, as in generation. */
static tess_status attention_queries(const invariance_call *c)
{
    tess_attention_seq seqs[TESS_INVARIANCE_ITEMS];
    int64_t n_seqs = 0;
    for (int64_t i = 0; i < c->n; i++) {
        if (i > 0 && c->item[i] == c->item[i - 1] + 1) {
            seqs[n_seqs - 1].q_len++;
            seqs[n_seqs - 1].k_len++;
            continue;
        }
        seqs[n_seqs++] = (tess_attention_seq){
            .q_begin = i, .q_len = 1, .k_len = c->item[i] + 1, .k = c->consts[0], .v = c->consts[1]};
    }
    const tess_attention a = attention_of(c, seqs, n_seqs);
    return c->kernels->attention_forward(c->stream, &a);
}

/* ---- Attention: an item is a text ---- */
enum { TEXT_ROW = TEXT_H * TEXT_D };

static tess_status attention_texts(const invariance_call *c, bool backward)
{
    tess_attention_seq seqs[TESS_INVARIANCE_ITEMS];
    size_t element = tess_dtype_size(c->of->dtype), text = (size_t)TEXT * TEXT_D * element;
    for (int64_t i = 0; i < c->n; i++)
        seqs[i] = (tess_attention_seq){.q_begin = i * TEXT,
                                       .q_len = TEXT,
                                       .k_len = TEXT,
                                       .k = (const char *)c->in[1] + (size_t)i * text,
                                       .v = (const char *)c->in[2] + (size_t)i * text};
    const tess_attention a = {.n_seqs = c->n,
                              .seqs = seqs,
                              .n_heads = TEXT_H,
                              .n_kv_heads = 1,
                              .head_size = TEXT_D,
                              .scale = 0.17f,
                              .soft_cap = (float)c->of->arg[1],
                              .sinks = c->consts[0],
                              .q = c->in[0],
                              .out = c->out[0],
                              .q_stride = TEXT_ROW,
                              .k_stride = TEXT_D,
                              .v_stride = TEXT_D,
                              .out_stride = TEXT_ROW,
                              .lse = c->out[1],
                              .dtype = c->of->dtype};
    TESS_TRY(c->kernels->attention_forward(c->stream, &a));
    if (!backward)
        return TESS_OK;
    const tess_attention_grad g = {.forward = a,
                                   .dout = c->in[3],
                                   .dq = c->out[2],
                                   .dk = c->out[3],
                                   .dv = c->out[4],
                                   .dout_stride = TEXT_ROW,
                                   .dq_stride = TEXT_ROW,
                                   .dk_stride = TEXT_D,
                                   .dv_stride = TEXT_D};
    return c->kernels->attention_backward(c->stream, &g);
}

static tess_status attention_forward(const invariance_call *c)
{
    return attention_texts(c, false);
}

static tess_status attention_backward(const invariance_call *c)
{
    return attention_texts(c, true);
}

/* ---- The list ---- */
static const invariance_case cases[] = {
    {.name = "gemm",
     .shape = "B (k,n)",
     .both = true,
     .in = {OWN("a", K)},
     .out = {OWN("c", N)},
     .consts = {OWN("b", K *N), OWN("bias", N)},
     .arg = {0, 0, 0, 0},
     .run = gemm},
    {.name = "gemm",
     .shape = "B (n,k)",
     .both = true,
     .in = {OWN("a", K)},
     .out = {OWN("c", N)},
     .consts = {OWN("b", K *N), OWN("bias", N)},
     .arg = {1, 0, 0, 0},
     .run = gemm},
    {.name = "gemm",
     .shape = "leaves of 64",
     .both = true,
     .in = {OWN("a", K)},
     .out = {OWN("c", N)},
     .consts = {OWN("b", K *N), OWN("bias", N)},
     .arg = {1, LEAF, 0, 0},
     .run = gemm},
    {.name = "gemm",
     .shape = "A (k,m), to float32",
     .both = true,
     .in = {OWN("a", K)},
     .out = {FLOATS("c", N)},
     .consts = {OWN("b", K *N), OWN("bias", N)},
     .arg = {0, 0, 1, 0},
     .run = gemm},
    {.name = "gemm",
     .shape = "added to float32",
     .both = true,
     .in = {OWN("a", K), FLOATS("c", N)},
     .out = {FLOATS("c", N)},
     .consts = {OWN("b", K *N)},
     .arg = {1, 0, 0, 1},
     .run = gemm},
    {.name = "gemm_fused",
     .shape = "with a gate",
     .both = true,
     .in = {OWN("a", K), OWN("gate", N)},
     .out = {OWN("up", N), OWN("y", N)},
     .consts = {OWN("b", K *N)},
     .run = fused_act},
    {.name = "gemm_fused",
     .shape = "backward of a gate",
     .both = true,
     .in = {OWN("a", K), OWN("gate", N), OWN("up", N)},
     .out = {OWN("dgate", N), OWN("dup", N), OWN("y", N)},
     .consts = {OWN("b", K *N)},
     .run = fused_backward},
    {.name = "gemm_fused",
     .shape = "two terms",
     .both = true,
     .in = {OWN("a", K), OWN("a2", K2)},
     .out = {OWN("c", N)},
     .consts = {OWN("b", K *N), OWN("b2", K2 *N)},
     .run = fused_terms},
    {.name = "gemm_grouped",
     .shape = "two groups",
     .both = true,
     .in = {OWN("a", K)},
     .out = {OWN("c", N)},
     .consts = {OWN("b", K *N)},
     .run = grouped},
    {.name = "attention_forward",
     .shape = "queries of a text",
     .both = true,
     .numbered = true,
     .in = {OWN("q", H *D)},
     .out = {OWN("out", H *D), FLOATS("lse", H)},
     .consts = {OWN("k", LENGTH *G *D), OWN("v", LENGTH *G *D)},
     .run = attention_queries},
    {.name = "attention_forward",
     .shape = "queries, window 33",
     .both = true,
     .numbered = true,
     .in = {OWN("q", H *D)},
     .out = {OWN("out", H *D), FLOATS("lse", H)},
     .consts = {OWN("k", LENGTH *G *D), OWN("v", LENGTH *G *D)},
     .arg = {33},
     .run = attention_queries},
    {.name = "attention_forward",
     .shape = "queries, window 33, soft cap, sinks",
     .both = true,
     .numbered = true,
     .in = {OWN("q", H *D)},
     .out = {OWN("out", H *D), FLOATS("lse", H)},
     .consts = {OWN("k", LENGTH *G *D), OWN("v", LENGTH *G *D), OWN("sinks", H)},
     .arg = {33, 2},
     .run = attention_queries},
    {.name = "attention_forward",
     .shape = "texts of 70",
     .both = true,
     .heavy = true,
     .in = {OWN("q", TEXT *TEXT_ROW), OWN("k", TEXT *TEXT_D), OWN("v", TEXT *TEXT_D)},
     .out = {OWN("out", TEXT *TEXT_ROW), FLOATS("lse", TEXT *TEXT_H)},
     .run = attention_forward},
    {.name = "attention_backward",
     .shape = "texts of 70",
     .both = true,
     .heavy = true,
     .in = {OWN("q", TEXT *TEXT_ROW), OWN("k", TEXT *TEXT_D), OWN("v", TEXT *TEXT_D), OWN("dout", TEXT *TEXT_ROW)},
     .out = {OWN("out", TEXT *TEXT_ROW), FLOATS("lse", TEXT *TEXT_H), OWN("dq", TEXT *TEXT_ROW),
             OWN("dk", TEXT *TEXT_D), OWN("dv", TEXT *TEXT_D)},
     .run = attention_backward},
    {.name = "attention_backward",
     .shape = "texts of 70, soft cap, sinks",
     .both = true,
     .heavy = true,
     .in = {OWN("q", TEXT *TEXT_ROW), OWN("k", TEXT *TEXT_D), OWN("v", TEXT *TEXT_D), OWN("dout", TEXT *TEXT_ROW)},
     .out = {OWN("out", TEXT *TEXT_ROW), FLOATS("lse", TEXT *TEXT_H), OWN("dq", TEXT *TEXT_ROW),
             OWN("dk", TEXT *TEXT_D), OWN("dv", TEXT *TEXT_D)},
     .consts = {OWN("sinks", TEXT_H)},
     .arg = {0, 2},
     .run = attention_backward},
};

invariance_list invariance_product_cases(void)
{
    return (invariance_list){cases, sizeof(cases) / sizeof(cases[0])};
}
