/* Attention of one layer, causal, forward and backward. */
#include "bench/kernels_impl.h"

typedef struct shape {
    tess_dtype dtype;
    const char *name;
    int64_t n_seqs, len, n_heads, n_kv_heads, head_size;
    bool quick;
} shape;

static const shape shapes[] = {
    {TESS_BF16, "gpt2", 4, 1024, 12, 12, 64, false},    {TESS_BF16, "gpt2", 1, 128, 12, 12, 64, true},
    {TESS_BF16, "llama-1b", 1, 2048, 32, 8, 64, false}, {TESS_BF16, "llama-8b", 1, 2048, 32, 8, 128, false},
    {TESS_F32, "gpt2", 1, 1024, 12, 12, 64, false},     {TESS_F32, "llama-1b", 1, 1024, 32, 8, 64, false},
};

enum { MAX_SEQS = 8 };

typedef struct attention_run {
    tess_stream *stream;
    tess_attention a;
    tess_attention_grad g;
    tess_attention_seq seqs[MAX_SEQS];
    void *q, *k, *v, *out, *dout, *dq, *dk, *dv, *lse;
} attention_run;

static tess_status forward(void *self)
{
    attention_run *r = self;
    return r->stream->kernels->attention_forward(r->stream, &r->a);
}

static tess_status backward(void *self)
{
    attention_run *r = self;
    return r->stream->kernels->attention_backward(r->stream, &r->a, &r->g);
}

static void destroy(const kernels_bench *bench, attention_run *r)
{
    void *const blocks[] = {r->q, r->k, r->v, r->out, r->dout, r->dq, r->dk, r->dv, r->lse};
    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++)
        tess_mem_free(bench->mem, blocks[i]);
}

static tess_status create(const kernels_bench *bench, const shape *s, attention_run *r)
{
    int64_t T = s->n_seqs * s->len, wide = s->n_heads * s->head_size, narrow = s->n_kv_heads * s->head_size;
    void **const wide_blocks[] = {&r->q, &r->out, &r->dout, &r->dq},
                 **const narrow_blocks[] = {&r->k, &r->v, &r->dk, &r->dv};
    for (int i = 0; i < 4; i++) {
        TESS_TRY(kernels_bench_operand(bench, T * wide, s->dtype, wide_blocks[i]));
        TESS_TRY(kernels_bench_operand(bench, T * narrow, s->dtype, narrow_blocks[i]));
    }
    TESS_TRY(kernels_bench_operand(bench, T * s->n_heads, TESS_F32, &r->lse));
    for (int64_t i = 0; i < s->n_seqs; i++) {
        size_t first = (size_t)(i * s->len * narrow) * tess_dtype_size(s->dtype);
        r->seqs[i] = (tess_attention_seq){i * s->len, s->len, s->len, (char *)r->k + first, (char *)r->v + first};
    }
    r->stream = bench->stream;
    r->a = (tess_attention){.n_seqs = s->n_seqs,
                            .seqs = r->seqs,
                            .n_heads = s->n_heads,
                            .n_kv_heads = s->n_kv_heads,
                            .head_size = s->head_size,
                            .scale = 0.125f,
                            .q = r->q,
                            .out = r->out,
                            .q_stride = wide,
                            .k_stride = narrow,
                            .v_stride = narrow,
                            .out_stride = wide,
                            .lse = r->lse,
                            .dtype = s->dtype};
    r->g = (tess_attention_grad){r->dout, r->dq, r->dk, r->dv, wide, wide, narrow, narrow};
    return TESS_OK;
}

static const char *row_name(const shape *s, bool is_backward, char *name, size_t size)
{
    snprintf(name, size, "attention %s %s %s %lldx%lldx%lldx%lld", s->dtype == TESS_BF16 ? "bf16" : "fp32",
             is_backward ? "backward" : "forward", s->name, (long long)s->n_seqs, (long long)s->len,
             (long long)s->n_heads, (long long)s->head_size);
    return name;
}

/* Causal: half of the T x T products count; forward has two of them, backward five. */
static tess_status add_row(const kernels_bench *bench, const shape *s, attention_run *r, bool is_backward)
{
    char name[128];
    if (!tess_bench_wanted(bench->options, row_name(s, is_backward, name, sizeof(name))))
        return TESS_OK;
    tess_bench_race race = {.n_sides = 1, .rounds = bench->rounds, .budget_s = 3};
    race.side[0] = (tess_bench_side){is_backward ? backward : forward, r};
    race.limit = s->dtype == TESS_BF16 ? kernels_bench_peak_bf16 : kernels_bench_peak_f32;
    race.limit_self = bench->stream;
    TESS_TRY_CTX(tess_bench_race_run(&race), "%s", name);
    double len = (double)s->len, flops = (double)(s->n_seqs * s->n_heads * s->head_size) * len * len;
    flops *= is_backward ? 5 : 2;
    double seconds = tess_bench_race_median_s(&race, 0);
    return tess_bench_report_row(
        bench->report, name,
        (double[]){100 * tess_bench_race_share(&race, flops), flops / seconds / 1e9, seconds * 1e3, race.n_rounds});
}

static tess_status run_shape(const kernels_bench *bench, const shape *s)
{
    char name[2][128];
    attention_run r = {0};
    if (!tess_bench_wanted(bench->options, row_name(s, false, name[0], sizeof(name[0]))) &&
        !tess_bench_wanted(bench->options, row_name(s, true, name[1], sizeof(name[1]))))
        return TESS_OK;
    tess_status status = create(bench, s, &r);
    if (status == TESS_OK)
        status = forward(&r); /* backward needs its out and lse */
    if (status == TESS_OK)
        status = add_row(bench, s, &r, false);
    if (status == TESS_OK)
        status = add_row(bench, s, &r, true);
    destroy(bench, &r);
    return status;
}

tess_status kernels_bench_attention(const kernels_bench *bench)
{
    static const tess_bench_column columns[] = {{"limit", "% peak", TESS_BENCH_HIGHER},
                                                {"rate", "GFLOP/s", TESS_BENCH_NEITHER},
                                                {"time", "ms", TESS_BENCH_NEITHER},
                                                {"runs", "", TESS_BENCH_NEITHER}};
    TESS_TRY(tess_bench_report_table(bench->report, "attention: sequences x tokens x heads x size", columns, 4));
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        if (bench->options->common.quick == shapes[i].quick)
            TESS_TRY(run_shape(bench, &shapes[i]));
    return TESS_OK;
}
