/* Matrix products as training and generation call them (nn/layers/linear.c): forward x W, dX = dY W^T, dW = x^T dY. */
#include <math.h>

#include "bench/kernels/kernels_impl.h"
#include "nn/layers/model_ends.h"

enum { COUNTED_TOKENS = 512, MAX_COLUMNS = 6 + TESS_BENCH_MAX_PEERS };

typedef enum direction { FORWARD, DX, DW, N_DIRECTIONS } direction;
static const char *const direction_names[N_DIRECTIONS] = {"forward", "dX", "dW"};

/* A linear layer. GPT-2 stores weights (in, out), Llama (out, in). q, k and v of a token share a row; in GPT-2 they are
 * one product, because their weights are one matrix. */
typedef struct layer {
    tess_dtype dtype;
    const char *name;
    enum { OUT_IN, IN_OUT } stored;
    enum { TRAIN, TRAIN_QUICK, HEAD, DECODE, DECODE_HEAD } use;
    int64_t tokens, n_in, n_out, ld;
    int64_t row; /* row stride of the output; 0: n_out */
} layer;

static const layer layers[] = {
    {TESS_BF16, "gpt2 attn.qkv", IN_OUT, TRAIN, 4096, 768, 2304, 2304, 0},
    {TESS_BF16, "gpt2 attn.o", IN_OUT, TRAIN, 4096, 768, 768, 768, 0},
    {TESS_BF16, "gpt2 mlp.up", IN_OUT, TRAIN_QUICK, 512, 768, 3072, 3072, 0},
    {TESS_BF16, "gpt2 mlp.up", IN_OUT, TRAIN, 4096, 768, 3072, 3072, 0},
    {TESS_BF16, "gpt2 mlp.down", IN_OUT, TRAIN, 4096, 3072, 768, 768, 0},
    {TESS_BF16, "gpt2 head", OUT_IN, HEAD, 512, 768, 50257, 768, 0},
    {TESS_BF16, "llama-1b attn.q", OUT_IN, TRAIN, 1024, 2048, 2048, 2048, 3072},
    {TESS_BF16, "llama-1b attn.k", OUT_IN, TRAIN, 1024, 2048, 512, 2048, 3072},
    {TESS_BF16, "llama-1b mlp.up", OUT_IN, TRAIN, 1024, 2048, 8192, 2048, 0},
    {TESS_BF16, "llama-1b mlp.down", OUT_IN, TRAIN, 1024, 8192, 2048, 8192, 0},
    {TESS_BF16, "llama-1b head", OUT_IN, HEAD, 256, 2048, 128256, 2048, 0},
    {TESS_BF16, "llama-8b attn.q", OUT_IN, TRAIN, 512, 4096, 4096, 4096, 6144},
    {TESS_BF16, "llama-8b attn.k", OUT_IN, TRAIN, 512, 4096, 1024, 4096, 6144},
    {TESS_BF16, "llama-8b mlp.up", OUT_IN, TRAIN, 512, 4096, 14336, 4096, 0},
    {TESS_BF16, "llama-8b mlp.down", OUT_IN, TRAIN, 512, 14336, 4096, 14336, 0},
    {TESS_BF16, "gpt2 mlp.up", IN_OUT, DECODE, 1, 768, 3072, 3072, 0},
    {TESS_BF16, "gpt2 head", OUT_IN, DECODE_HEAD, 1, 768, 50257, 768, 0},
    {TESS_BF16, "gpt2 mlp.up", IN_OUT, DECODE, 64, 768, 3072, 3072, 0},
    {TESS_BF16, "gpt2 mlp.down", IN_OUT, DECODE, 64, 3072, 768, 768, 0},
    {TESS_BF16, "gpt2 head", OUT_IN, DECODE_HEAD, 64, 768, 50257, 768, 0},
    {TESS_BF16, "llama-1b mlp.up", OUT_IN, DECODE, 1, 2048, 8192, 2048, 0},
    {TESS_BF16, "llama-8b mlp.up", OUT_IN, DECODE, 1, 4096, 14336, 4096, 0},
    {TESS_F32, "gpt2 attn.qkv", IN_OUT, TRAIN, 1024, 768, 2304, 2304, 0},
    {TESS_F32, "gpt2 mlp.up", IN_OUT, TRAIN, 1024, 768, 3072, 3072, 0},
    {TESS_F32, "gpt2 mlp.down", IN_OUT, TRAIN, 1024, 3072, 768, 768, 0},
    {TESS_F32, "gpt2 head", OUT_IN, HEAD, 512, 768, 50257, 768, 0},
    {TESS_F32, "llama-1b attn.q", OUT_IN, TRAIN, 512, 2048, 2048, 2048, 3072},
    {TESS_F32, "llama-1b mlp.up", OUT_IN, TRAIN, 512, 2048, 8192, 2048, 0},
    {TESS_F32, "llama-1b mlp.down", OUT_IN, TRAIN, 512, 8192, 2048, 8192, 0},
    {TESS_F32, "gpt2 mlp.up", IN_OUT, DECODE, 1, 768, 3072, 3072, 0},
    {TESS_F32, "gpt2 mlp.up", IN_OUT, DECODE, 64, 768, 3072, 3072, 0},
    {TESS_F32, "gpt2 mlp.down", IN_OUT, DECODE, 64, 3072, 768, 768, 0},
    {TESS_F32, "gpt2 head", OUT_IN, DECODE_HEAD, 64, 768, 50257, 768, 0},
    {TESS_F32, "llama-1b mlp.up", OUT_IN, DECODE, 1, 2048, 8192, 2048, 0},
};

static bool is_head(const layer *l)
{
    return l->use == HEAD || l->use == DECODE_HEAD;
}

/* Returns the row stride of the layer's output. */
static int64_t output_row(const layer *l)
{
    return is_head(l) ? tess_head_row(l->n_out) : l->row > 0 ? l->row : l->n_out;
}

/* Returns the row stride of the output's gradient, in elements. The gradient of the logits overwrites the logits. */
static int64_t gradient_row(const layer *l)
{
    return output_row(l) * (is_head(l) ? (int64_t)(sizeof(float) / tess_dtype_size(l->dtype)) : 1);
}

static tess_gemm forward_of(const layer *l)
{
    return (tess_gemm){.m = l->tokens,
                       .n = l->n_out,
                       .k = l->n_in,
                       .lda = l->n_in,
                       .ldb = l->ld,
                       .ldc = output_row(l),
                       .trans_b = l->stored == OUT_IN,
                       .c_dtype = is_head(l) ? TESS_F32 : l->dtype};
}

static tess_gemm dx_of(const layer *l)
{
    return (tess_gemm){.m = l->tokens,
                       .n = l->n_in,
                       .k = l->n_out,
                       .lda = gradient_row(l),
                       .ldb = l->ld,
                       .ldc = l->n_in,
                       .trans_b = l->stored == IN_OUT,
                       .c_dtype = l->dtype};
}

/* Returns the product for dW: x^T dy if weights are (in, out), dy^T x if they are (out, in). */
static tess_gemm dw_of(const layer *l)
{
    bool in_out = l->stored == IN_OUT;
    return (tess_gemm){.m = in_out ? l->n_in : l->n_out,
                       .n = in_out ? l->n_out : l->n_in,
                       .k = l->tokens,
                       .lda = in_out ? l->n_in : gradient_row(l),
                       .ldb = in_out ? gradient_row(l) : l->n_in,
                       .ldc = l->ld,
                       .trans_a = true,
                       .c_dtype = TESS_F32};
}

static int64_t a_elements(const tess_gemm *g)
{
    return (g->trans_a ? g->k : g->m) * g->lda;
}

static int64_t b_elements(const tess_gemm *g)
{
    return (g->trans_b ? g->n : g->k) * g->ldb;
}

/* ---- One race ---- */

typedef struct ours {
    tess_stream *stream;
    tess_gemm g;
} ours;

static tess_status run_ours(void *self)
{
    ours *o = self;
    return tess_stream_kernels(o->stream)->gemm(o->stream, &o->g);
}

typedef struct theirs {
    const tess_bench_peer *peer;
    tess_bench_product *product;
} theirs;

static tess_status run_theirs(void *self)
{
    theirs *t = self;
    TESS_CHECK(t->peer->run(t->product), TESS_E_INTERNAL, "%s failed", t->peer->name);
    return TESS_OK;
}

static int n_peers(const kernels_bench *bench)
{
    int n = 0;
    while (bench->peers != NULL && n < TESS_BENCH_MAX_PEERS && bench->peers->peers[n] != NULL)
        n++;
    return n;
}

/* Races our kernel against every peer that offers the product. ratios[i] belongs to peer i; NAN: it does not offer
 * it. */
static tess_status race_peers(const kernels_bench *bench, ours *o, tess_bench_race *race, double *ratios)
{
    theirs peers[TESS_BENCH_MAX_PEERS];
    int side_of[TESS_BENCH_MAX_PEERS], n = n_peers(bench);
    race->n_sides = 1;
    race->side[0] = (tess_bench_side){run_ours, o};
    for (int i = 0; i < n; i++) {
        peers[i] = (theirs){bench->peers->peers[i], bench->peers->peers[i]->prepare(&o->g)};
        side_of[i] = peers[i].product != NULL ? race->n_sides++ : -1;
        if (side_of[i] >= 0)
            race->side[side_of[i]] = (tess_bench_side){run_theirs, &peers[i]};
    }
    tess_status status = tess_bench_race_run(race);
    for (int i = 0; i < n; i++) {
        ratios[i] = status == TESS_OK && side_of[i] >= 0
                        ? tess_bench_median_ratio(race->seconds[side_of[i]], race->seconds[0], race->n_rounds)
                        : NAN;
        if (side_of[i] >= 0)
            peers[i].peer->release(peers[i].product);
    }
    return status;
}

/* ---- Rows and their summary ---- */

typedef struct summary {
    double log_share, log_ratio;
    int n, n_ratios;
} summary;

static void count(summary *sums, const tess_gemm *g, double share, double ratio)
{
    summary *s = &sums[g->ab_dtype == TESS_BF16];
    s->log_share += log(share);
    s->n++;
    if (isfinite(ratio)) {
        s->log_ratio += log(ratio);
        s->n_ratios++;
    }
}

/* Adds a row with the columns limit, rate, time, one per peer, ratio to the best peer, and runs. */
static tess_status add_row(const kernels_bench *bench, const char *name, ours *o, summary *sums, bool counted)
{
    double values[MAX_COLUMNS], best = NAN;
    tess_bench_race race = {.rounds = bench->rounds, .budget_s = 4};
    const tess_gemm *g = &o->g;
    int n = n_peers(bench);
    /* the product reads all of B, and computes little */
    kernels_limit limit = g->m == 1                  ? KERNELS_LIMIT_READ
                          : g->ab_dtype == TESS_BF16 ? KERNELS_LIMIT_BF16
                                                     : KERNELS_LIMIT_F32;
    kernels_bench_limit(bench, limit, &race);
    TESS_TRY_CTX(race_peers(bench, o, &race, values + 3), "%s", name);
    double flops = 2.0 * (double)g->m * (double)g->n * (double)g->k,
           seconds = tess_bench_median(race.seconds[0], race.n_rounds);
    double units = g->m == 1 ? (double)g->n * (double)g->k * (double)tess_dtype_size(g->ab_dtype) : flops;
    double share = tess_bench_race_share(&race, units);
    for (int i = 0; i < n; i++)
        best = fmin(best, values[3 + i]);
    values[0] = 100 * share;
    values[1] = flops / seconds / 1e9;
    values[2] = seconds * 1e3;
    values[3 + n] = best;
    values[4 + n] = race.n_rounds;
    if (counted)
        count(sums, g, share, best);
    return tess_bench_report_row(bench->report, name, values);
}

static tess_status run_layer(const kernels_bench *bench, const layer *l, direction d, summary *sums)
{
    ours o = {bench->stream, d == FORWARD ? forward_of(l) : d == DX ? dx_of(l) : dw_of(l)};
    tess_gemm *g = &o.g;
    char name[128];
    void *x[3] = {NULL};
    snprintf(name, sizeof(name), "gemm %s %s %s %lldx%lldx%lld", l->dtype == TESS_BF16 ? "bf16" : "fp32",
             direction_names[d], l->name, (long long)g->m, (long long)g->n, (long long)g->k);
    if (!tess_bench_wanted(bench->options, name))
        return TESS_OK;
    g->ab_dtype = l->dtype;
    tess_status status = kernels_bench_operand(bench, a_elements(g), g->ab_dtype, &x[0]);
    if (status == TESS_OK)
        status = kernels_bench_operand(bench, b_elements(g), g->ab_dtype, &x[1]);
    if (status == TESS_OK)
        status = kernels_bench_operand(bench, g->m * g->ldc, g->c_dtype, &x[2]);
    g->a = x[0];
    g->b = x[1];
    g->c = x[2];
    if (status == TESS_OK)
        status = add_row(bench, name, &o, sums, l->tokens >= COUNTED_TOKENS);
    kernels_bench_release(bench, x, 3);
    return status;
}

static tess_status start_table(const kernels_bench *bench)
{
    char columns[512];
    size_t at = tess_text_add(columns, sizeof(columns), 0, ">limit[%% peak], rate[GFLOP/s], time[ms]");
    for (int i = 0; i < n_peers(bench); i++)
        at = tess_text_add(columns, sizeof(columns), at, ", >%s[x]", bench->peers->peers[i]->name);
    tess_text_add(columns, sizeof(columns), at, ", >peer[x best], runs");
    return tess_bench_report_table(bench->report, "matrix products m x n x k", columns);
}

static tess_status add_summary(const kernels_bench *bench, const summary *sums)
{
    if (sums[0].n + sums[1].n == 0)
        return TESS_OK;
    TESS_TRY(tess_bench_report_table(bench->report, "geometric means, 512 tokens and more",
                                     ">limit[% peak], >peer[x best], rows"));
    for (int i = 1; i >= 0; i--) {
        const summary *s = &sums[i];
        double ratio = s->n_ratios > 0 ? exp(s->log_ratio / s->n_ratios) : NAN;
        if (s->n > 0)
            TESS_TRY(tess_bench_report_row(bench->report, i == 1 ? "all gemm bf16" : "all gemm fp32",
                                           (double[]){100 * exp(s->log_share / s->n), ratio, s->n}));
    }
    return TESS_OK;
}

/* ---- Groups of products: the experts of a layer, each with the same number of tokens ---- */
static const struct expert_layer {
    int n_experts;
    layer of; /* the layer of one expert */
} expert_layers[] = {
    {16, {TESS_BF16, "olmoe up", OUT_IN, TRAIN, 256, 2048, 1024, 2048, 0}},
    {16, {TESS_BF16, "olmoe up", OUT_IN, TRAIN, 64, 2048, 1024, 2048, 0}},
    {16, {TESS_BF16, "olmoe down", OUT_IN, TRAIN, 256, 1024, 2048, 1024, 0}},
    {16, {TESS_BF16, "olmoe down", OUT_IN, TRAIN, 64, 1024, 2048, 1024, 0}},
    {16, {TESS_BF16, "gpt-oss up", IN_OUT, TRAIN, 256, 2880, 2880, 2880, 0}},
    {16, {TESS_BF16, "gpt-oss up", IN_OUT, TRAIN, 64, 2880, 2880, 2880, 0}},
    {128, {TESS_BF16, "qwen3-moe up", OUT_IN, DECODE, 4, 2048, 768, 2048, 0}},
    {16, {TESS_F32, "olmoe up", OUT_IN, TRAIN, 256, 2048, 1024, 2048, 0}},
    {16, {TESS_F32, "olmoe up", OUT_IN, TRAIN, 64, 2048, 1024, 2048, 0}},
    {4, {TESS_BF16, "tiny", OUT_IN, TRAIN_QUICK, 16, 64, 128, 64, 0}},
};

typedef struct expert_race {
    tess_stream *stream;
    tess_gemm g; /* the first expert's product */
    tess_gemm_fused products[128];
    int n_products;
    ours dense; /* a product of equal flops, with one weight matrix */
} expert_race;

static tess_status run_grouped(void *self)
{
    expert_race *e = self;
    return tess_stream_kernels(e->stream)->gemm_grouped(
        e->stream,
        &(tess_gemm_grouped){.products = e->products, .n_products = e->n_products, .ab_dtype = e->g.ab_dtype});
}

static tess_status run_apart(void *self)
{
    expert_race *e = self;
    for (int i = 0; i < e->n_products; i++)
        TESS_TRY(tess_stream_kernels(e->stream)->gemm(e->stream, &e->products[i].g));
    return TESS_OK;
}

/* The experts' matrices follow each other. */
static void add_experts(expert_race *e)
{
    const tess_gemm *g = &e->g;
    size_t size = tess_dtype_size(g->ab_dtype), c_size = tess_dtype_size(g->c_dtype);
    for (int i = 0; i < e->n_products; i++) {
        tess_gemm *of = &e->products[i].g;
        *of = *g;
        of->a = (const char *)g->a + (size_t)(i * a_elements(g)) * size;
        of->b = (const char *)g->b + (size_t)(i * b_elements(g)) * size;
        of->c = (char *)g->c + (size_t)(i * g->m * g->ldc) * c_size;
    }
    e->dense = (ours){e->stream, *g};
    *(g->trans_a ? &e->dense.g.k : &e->dense.g.m) *= e->n_products;
}

static tess_status add_expert_row(const kernels_bench *bench, const char *name, expert_race *e)
{
    tess_bench_race race = {.n_sides = 3,
                            .side = {{run_grouped, e}, {run_ours, &e->dense}, {run_apart, e}},
                            .rounds = bench->rounds,
                            .budget_s = 4};
    const tess_gemm *g = &e->g;
    kernels_bench_limit(bench, g->ab_dtype == TESS_BF16 ? KERNELS_LIMIT_BF16 : KERNELS_LIMIT_F32, &race);
    TESS_TRY_CTX(tess_bench_race_run(&race), "%s", name);
    double flops = 2.0 * (double)g->m * (double)g->n * (double)g->k * e->n_products,
           seconds = tess_bench_median(race.seconds[0], race.n_rounds);
    const double values[] = {100 * tess_bench_race_share(&race, flops),
                             flops / seconds / 1e9,
                             seconds * 1e3,
                             tess_bench_median_ratio(race.seconds[1], race.seconds[0], race.n_rounds),
                             tess_bench_median_ratio(race.seconds[2], race.seconds[0], race.n_rounds),
                             race.n_rounds};
    return tess_bench_report_row(bench->report, name, values);
}

static tess_status run_experts(const kernels_bench *bench, const struct expert_layer *x, direction d)
{
    const layer *l = &x->of;
    expert_race e = {.stream = bench->stream, .n_products = x->n_experts};
    tess_gemm *g = &e.g;
    char name[128];
    void *memory[3] = {NULL};
    *g = d == FORWARD ? forward_of(l) : d == DX ? dx_of(l) : dw_of(l);
    g->ab_dtype = l->dtype;
    snprintf(name, sizeof(name), "grouped %s %s %s %dx%lldx%lldx%lld", l->dtype == TESS_BF16 ? "bf16" : "fp32",
             direction_names[d], l->name, x->n_experts, (long long)g->m, (long long)g->n, (long long)g->k);
    if (!tess_bench_wanted(bench->options, name))
        return TESS_OK;
    tess_status status = kernels_bench_operand(bench, x->n_experts * a_elements(g), g->ab_dtype, &memory[0]);
    if (status == TESS_OK)
        status = kernels_bench_operand(bench, x->n_experts * b_elements(g), g->ab_dtype, &memory[1]);
    if (status == TESS_OK)
        status = kernels_bench_operand(bench, x->n_experts * g->m * g->ldc, g->c_dtype, &memory[2]);
    g->a = memory[0];
    g->b = memory[1];
    g->c = memory[2];
    add_experts(&e);
    if (status == TESS_OK)
        status = add_expert_row(bench, name, &e);
    kernels_bench_release(bench, memory, 3);
    return status;
}

static tess_status run_all_experts(const kernels_bench *bench)
{
    TESS_TRY(tess_bench_report_table(
        bench->report, "grouped products experts x m x n x k, next to a dense one and to one after another",
        ">limit[% peak], rate[GFLOP/s], time[ms], >dense[x], >apart[x], runs"));
    for (size_t i = 0; i < sizeof(expert_layers) / sizeof(expert_layers[0]); i++)
        for (direction d = FORWARD; d < (expert_layers[i].of.use == DECODE ? DX : N_DIRECTIONS); d++)
            if (bench->options->common.quick == (expert_layers[i].of.use == TRAIN_QUICK))
                TESS_TRY(run_experts(bench, &expert_layers[i], d));
    return TESS_OK;
}

tess_status kernels_bench_gemm(const kernels_bench *bench)
{
    summary sums[2] = {{.n = 0}, {.n = 0}}; /* one for fp32, one for bf16 */
    TESS_TRY(start_table(bench));
    for (size_t i = 0; i < sizeof(layers) / sizeof(layers[0]); i++) {
        const layer *l = &layers[i];
        direction end = l->use == DECODE || l->use == DECODE_HEAD ? DX : N_DIRECTIONS;
        for (direction d = FORWARD; d < end; d++)
            if (!bench->options->common.quick || l->use == TRAIN_QUICK)
                TESS_TRY(run_layer(bench, l, d, sums));
    }
    TESS_TRY(add_summary(bench, sums));
    return run_all_experts(bench);
}
