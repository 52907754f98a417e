/* Kernels over rows of tokens: norms, rotation, activations. Their limit is the memory: bytes are what must be read and
 * written, each once. */
#include "bench/kernels_impl.h"

enum { MAX_OPERANDS = 5, HEAD_SIZE = 64 };

/* T rows of C elements each in x[0 .. 4]; weights and statistics beside them. */
typedef struct operands {
    tess_stream *stream;
    const tess_kernels *kernels;
    tess_dtype dtype;
    int64_t T, C;
    void *x[MAX_OPERANDS];
    void *w, *b;                 /* (C) */
    void *dw, *db, *mean, *rstd; /* float: (C), (C), (T), (T) */
    void *cos_table, *sin_table; /* float: (T, HEAD_SIZE / 2) */
    void *positions;             /* int32: (T): 0, 1, ... */
} operands;

static const float EPS = 1e-5f;

static tess_status layernorm_forward(void *self)
{
    operands *o = self;
    return o->kernels->layernorm_forward(o->stream, o->x[0], o->x[1], o->x[2], o->w, o->b, o->x[3], o->mean, o->rstd,
                                         o->T, o->C, EPS, o->dtype);
}

static tess_status layernorm_backward(void *self)
{
    operands *o = self;
    return o->kernels->layernorm_backward(o->stream, o->x[0], o->w, o->mean, o->rstd, o->x[1], o->x[2], o->x[3], o->dw,
                                          o->db, o->T, o->C, o->dtype);
}

static tess_status rmsnorm_forward(void *self)
{
    operands *o = self;
    return o->kernels->rmsnorm_forward(o->stream, o->x[0], o->x[1], o->x[2], o->w, o->x[3], o->rstd, o->T, o->C, EPS,
                                       o->dtype);
}

static tess_status rmsnorm_backward(void *self)
{
    operands *o = self;
    return o->kernels->rmsnorm_backward(o->stream, o->x[0], o->w, o->rstd, o->x[1], o->x[2], o->x[3], o->dw, o->T, o->C,
                                        o->dtype);
}

static tess_status rope(void *self)
{
    operands *o = self;
    return o->kernels->rope(o->stream, o->x[0], o->C, o->positions, o->cos_table, o->sin_table, o->T, o->C / HEAD_SIZE,
                            HEAD_SIZE, HEAD_SIZE, false, o->dtype);
}

static tess_status glu_forward(void *self)
{
    operands *o = self;
    return o->kernels->glu_forward(o->stream, o->x[0], o->x[1], o->C, o->x[2], o->T, o->C, TESS_ACT_SILU, o->dtype);
}

static tess_status glu_backward(void *self)
{
    operands *o = self;
    return o->kernels->glu_backward(o->stream, o->x[0], o->x[1], o->C, o->x[2], o->x[3], o->x[4], o->C, o->T, o->C,
                                    TESS_ACT_SILU, o->dtype);
}

static tess_status act_forward(void *self)
{
    operands *o = self;
    return o->kernels->act_forward(o->stream, o->x[0], o->x[1], o->T * o->C, TESS_ACT_GELU_TANH, o->dtype);
}

static tess_status act_backward(void *self)
{
    operands *o = self;
    return o->kernels->act_backward(o->stream, o->x[0], o->x[1], o->x[2], o->T * o->C, TESS_ACT_GELU_TANH, o->dtype);
}

static tess_status column_sum(void *self)
{
    operands *o = self;
    return o->kernels->column_sum(o->stream, o->x[0], o->C, o->db, o->T, o->C, o->dtype);
}

/* ---- Which, at what shapes ---- */

typedef struct row_kernel {
    const char *name;
    tess_status (*run)(void *operands);
    int passes; /* over (T, C): operands read plus operands written */
} row_kernel;

static const row_kernel layernorm[] = {
    {"layernorm forward", layernorm_forward, 4}, {"layernorm backward", layernorm_backward, 4}, {NULL, NULL, 0}};
static const row_kernel rmsnorm[] = {
    {"rmsnorm forward", rmsnorm_forward, 4}, {"rmsnorm backward", rmsnorm_backward, 4}, {NULL, NULL, 0}};
static const row_kernel rotation[] = {{"rope", rope, 2}, {NULL, NULL, 0}};
static const row_kernel gated[] = {
    {"silu glu forward", glu_forward, 3}, {"silu glu backward", glu_backward, 5}, {NULL, NULL, 0}};
static const row_kernel activation[] = {
    {"gelu forward", act_forward, 2}, {"gelu backward", act_backward, 3}, {NULL, NULL, 0}};
static const row_kernel sum[] = {{"column sum", column_sum, 1}, {NULL, NULL, 0}};

typedef struct row_shape {
    const row_kernel *kernels; /* the last has no name */
    const char *model;
    tess_dtype dtype;
    int64_t T, C;
    bool quick;
} row_shape;

static const row_shape shapes[] = {
    {layernorm, "gpt2", TESS_BF16, 4096, 768, false},     {layernorm, "gpt2", TESS_F32, 4096, 768, false},
    {rmsnorm, "llama-1b", TESS_BF16, 2048, 2048, false},  {rmsnorm, "llama-8b", TESS_BF16, 2048, 4096, false},
    {rotation, "llama-1b", TESS_BF16, 2048, 2048, false}, {gated, "llama-1b", TESS_BF16, 2048, 8192, false},
    {gated, "llama-8b", TESS_BF16, 1024, 14336, false},   {activation, "gpt2", TESS_BF16, 4096, 3072, false},
    {activation, "gpt2", TESS_F32, 4096, 3072, false},    {sum, "gpt2", TESS_BF16, 4096, 3072, false},
    {layernorm, "gpt2", TESS_BF16, 64, 768, true},
};

static tess_status create(const kernels_bench *bench, const row_shape *s, operands *o)
{
    *o =
        (operands){.stream = bench->stream, .kernels = bench->stream->kernels, .dtype = s->dtype, .T = s->T, .C = s->C};
    for (int i = 0; i < MAX_OPERANDS; i++)
        TESS_TRY(kernels_bench_operand(bench, s->T * s->C, s->dtype, &o->x[i]));
    TESS_TRY(kernels_bench_operand(bench, s->C, s->dtype, &o->w));
    TESS_TRY(kernels_bench_operand(bench, s->C, s->dtype, &o->b));
    TESS_TRY(kernels_bench_operand(bench, s->C, TESS_F32, &o->dw));
    TESS_TRY(kernels_bench_operand(bench, s->C, TESS_F32, &o->db));
    TESS_TRY(kernels_bench_operand(bench, s->T, TESS_F32, &o->mean));
    TESS_TRY(kernels_bench_operand(bench, s->T, TESS_F32, &o->rstd));
    TESS_TRY(kernels_bench_operand(bench, s->T * HEAD_SIZE / 2, TESS_F32, &o->cos_table));
    TESS_TRY(kernels_bench_operand(bench, s->T * HEAD_SIZE / 2, TESS_F32, &o->sin_table));
    TESS_TRY(kernels_bench_operand(bench, s->T, TESS_F32, &o->positions));
    for (int64_t t = 0; t < s->T; t++)
        ((int32_t *)o->positions)[t] = (int32_t)t;
    return TESS_OK;
}

static void destroy(const kernels_bench *bench, operands *o)
{
    void *const blocks[] = {o->w, o->b, o->dw, o->db, o->mean, o->rstd, o->cos_table, o->sin_table, o->positions};
    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++)
        tess_mem_free(bench->mem, blocks[i]);
    for (int i = 0; i < MAX_OPERANDS; i++)
        tess_mem_free(bench->mem, o->x[i]);
}

static tess_status run_kernel(const kernels_bench *bench, const row_shape *s, const row_kernel *kernel)
{
    char name[128];
    operands o;
    snprintf(name, sizeof(name), "%s %s %s %lldx%lld", kernel->name, s->dtype == TESS_BF16 ? "bf16" : "fp32", s->model,
             (long long)s->T, (long long)s->C);
    if (!tess_bench_wanted(bench->options, name))
        return TESS_OK;
    double bytes = (double)(kernel->passes * s->T * s->C) * (double)tess_dtype_size(s->dtype);
    tess_status status = create(bench, s, &o);
    if (status == TESS_OK)
        status = kernels_bench_memory_row(bench, name, (tess_bench_side){kernel->run, &o}, bytes);
    destroy(bench, &o);
    return status;
}

tess_status kernels_bench_rows(const kernels_bench *bench)
{
    TESS_TRY(tess_bench_report_table(bench->report, "rows of tokens: tokens x channels", kernels_bench_memory_columns,
                                     KERNELS_BENCH_MEMORY_COLUMNS));
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        for (const row_kernel *k = shapes[i].kernels; k->name != NULL; k++)
            if (bench->options->common.quick == shapes[i].quick)
                TESS_TRY(run_kernel(bench, &shapes[i], k));
    return TESS_OK;
}
