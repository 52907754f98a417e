/* Kernels over the vocabulary: cross-entropy with its gradient, embedding and its gradient. */
#include "bench/kernels_impl.h"
#include "nn/layers/layers.h"

typedef struct vocab_shape {
    const char *model;
    int64_t V, C, T; /* T tokens, for cross-entropy the rows of one chunk of the head */
    bool quick;
} vocab_shape;

static const vocab_shape shapes[] = {
    {"gpt2", 50257, 768, 512, false}, {"llama-1b", 128256, 2048, 256, false}, {"tiny", 512, 64, 64, true}};

typedef struct operands {
    tess_stream *stream;
    const vocab_shape *s;
    void *logits;  /* (T, V) float, rows as the head lays them out */
    void *dlogits; /* (T, V) bf16, rows as far apart */
    void *logprob; /* (T) float */
    void *table;   /* (V, C) bf16 */
    void *dtable;  /* (V, C) float */
    void *rows;    /* (T, C) bf16 */
    void *ids;     /* (T) int32 */
} operands;

static tess_status cross_entropy(void *self)
{
    operands *o = self;
    int64_t row = tess_head_row(o->s->V);
    return o->stream->kernels->cross_entropy(o->stream, o->logits, row, o->ids, o->logprob, NULL, o->dlogits, 2 * row,
                                             o->s->T, o->s->V, TESS_BF16);
}

static tess_status embedding_forward(void *self)
{
    operands *o = self;
    return o->stream->kernels->embedding_forward(o->stream, o->table, NULL, o->ids, NULL, o->rows, o->s->T, o->s->C,
                                                 TESS_BF16);
}

static tess_status embedding_backward(void *self)
{
    operands *o = self;
    return o->stream->kernels->embedding_backward(o->stream, o->ids, o->rows, o->dtable, o->s->V, o->s->T, o->s->C,
                                                  false, TESS_BF16);
}

static tess_status create(const kernels_bench *bench, const vocab_shape *s, operands *o)
{
    o->stream = bench->stream;
    o->s = s;
    TESS_TRY(kernels_bench_operand(bench, s->T * tess_head_row(s->V), TESS_F32, &o->logits));
    TESS_TRY(kernels_bench_operand(bench, s->T * 2 * tess_head_row(s->V), TESS_BF16, &o->dlogits));
    TESS_TRY(kernels_bench_operand(bench, s->T, TESS_F32, &o->logprob));
    TESS_TRY(kernels_bench_operand(bench, s->V * s->C, TESS_BF16, &o->table));
    TESS_TRY(kernels_bench_operand(bench, s->V * s->C, TESS_F32, &o->dtable));
    TESS_TRY(kernels_bench_operand(bench, s->T * s->C, TESS_BF16, &o->rows));
    TESS_TRY(kernels_bench_operand(bench, s->T, TESS_F32, &o->ids));
    for (int64_t t = 0; t < s->T; t++)
        ((int32_t *)o->ids)[t] = (int32_t)(t * 7919 % s->V);
    return TESS_OK;
}

static void destroy(const kernels_bench *bench, operands *o)
{
    void *const blocks[] = {o->logits, o->dlogits, o->logprob, o->table, o->dtable, o->rows, o->ids};
    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++)
        tess_mem_free(bench->mem, blocks[i]);
}

/* Cross-entropy reads logits once and writes their gradient; the embedding's gradient zeroes its table and adds.
 * Operands come with the first kernel that is wanted and serve all. */
static tess_status run_kernels(const kernels_bench *bench, const vocab_shape *s, operands *o)
{
    double T = (double)s->T, V = (double)s->V, C = (double)s->C;
    const struct {
        const char *name;
        tess_status (*run)(void *operands);
        double bytes;
    } kernels[] = {{"cross-entropy", cross_entropy, T * V * (4 + 2)},
                   {"embedding forward", embedding_forward, T * C * (2 + 2)},
                   {"embedding backward", embedding_backward, V * C * 4 + T * C * (2 + 8)}};
    for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
        char name[128];
        snprintf(name, sizeof(name), "%s %s %lld of %lldx%lld", kernels[i].name, s->model, (long long)s->T,
                 (long long)s->V, (long long)s->C);
        if (!tess_bench_wanted(bench->options, name))
            continue;
        if (o->ids == NULL)
            TESS_TRY(create(bench, s, o));
        TESS_TRY(kernels_bench_memory_row(bench, name, (tess_bench_side){kernels[i].run, o}, kernels[i].bytes));
    }
    return TESS_OK;
}

static tess_status run_shape(const kernels_bench *bench, const vocab_shape *s)
{
    operands o = {.ids = NULL};
    tess_status status = run_kernels(bench, s, &o);
    destroy(bench, &o);
    return status;
}

tess_status kernels_bench_vocab(const kernels_bench *bench)
{
    TESS_TRY(tess_bench_report_table(bench->report, "vocabulary: tokens of V x C", kernels_bench_memory_columns,
                                     KERNELS_BENCH_MEMORY_COLUMNS));
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        if (bench->options->common.quick == shapes[i].quick)
            TESS_TRY(run_shape(bench, &shapes[i]));
    return TESS_OK;
}
