/* Kernels that stream through parameters: AdamW, conversion, the tree of a reduction, the norm's sums. */
#include "bench/kernels_impl.h"

enum { MAX_INPUTS = 8, FULL = 16 << 20, QUICK = 1 << 12, ROW = 4096 };

typedef struct operands {
    tess_stream *stream;
    int64_t n;
    void *x[MAX_INPUTS]; /* (n) float each */
    void *y;             /* (n) float */
} operands;

static tess_status adamw(void *self)
{
    operands *o = self;
    return o->stream->kernels->adamw(o->stream, o->x[0], o->x[1], o->y, o->x[2], o->n, 1e-3f, 0.9f, 0.95f, 1e-8f, 0.1f,
                                     0.1f, 0.05f, 1, NULL, TESS_F32, NULL);
}

static tess_status adamw_with_copy(void *self)
{
    operands *o = self;
    return o->stream->kernels->adamw(o->stream, o->x[0], o->x[1], o->y, o->x[2], o->n, 1e-3f, 0.9f, 0.95f, 1e-8f, 0.1f,
                                     0.1f, 0.05f, 1, o->x[3], TESS_BF16, NULL);
}

static tess_status narrow(void *self)
{
    operands *o = self;
    return o->stream->kernels->convert(o->stream, o->x[0], TESS_F32, o->y, TESS_BF16, o->n);
}

static tess_status widen(void *self)
{
    operands *o = self;
    return o->stream->kernels->convert(o->stream, o->x[0], TESS_BF16, o->y, TESS_F32, o->n);
}

static tess_status reduce(operands *o, int n_inputs, tess_dtype dtype, bool accumulate)
{
    return o->stream->kernels->reduce_tree(o->stream, (const void *const *)o->x, n_inputs, dtype, o->y, o->n,
                                           accumulate);
}

static tess_status reduce_2(void *self)
{
    return reduce(self, 2, TESS_F32, false);
}

static tess_status reduce_2_accumulate(void *self)
{
    return reduce(self, 2, TESS_F32, true);
}

static tess_status reduce_4(void *self)
{
    return reduce(self, 4, TESS_F32, false);
}

static tess_status reduce_8(void *self)
{
    return reduce(self, MAX_INPUTS, TESS_F32, false);
}

static tess_status reduce_2_bf16(void *self)
{
    return reduce(self, 2, TESS_BF16, false);
}

/* The sums, one a row, take no space to speak of. */
static tess_status row_sumsq(void *self)
{
    operands *o = self;
    return o->stream->kernels->row_sumsq(o->stream, o->x[0], o->y, o->n / ROW, ROW);
}

typedef struct flat_kernel {
    const char *name;
    tess_status (*run)(void *operands);
    int bytes; /* read and written an element */
} flat_kernel;

static const flat_kernel kernels[] = {
    {"adamw", adamw, 28},
    {"adamw, copy in bf16", adamw_with_copy, 30},
    {"convert fp32 to bf16", narrow, 6},
    {"convert bf16 to fp32", widen, 6},
    {"reduce tree of 2", reduce_2, 12},
    {"reduce tree of 2, accumulate", reduce_2_accumulate, 16},
    {"reduce tree of 4", reduce_4, 20},
    {"reduce tree of 8", reduce_8, 36},
    {"reduce tree of 2 in bf16", reduce_2_bf16, 8},
    {"sums of squares", row_sumsq, 4},
};

static tess_status create(const kernels_bench *bench, int64_t n, operands *o)
{
    o->stream = bench->stream;
    o->n = n;
    for (int i = 0; i < MAX_INPUTS; i++)
        TESS_TRY(kernels_bench_operand(bench, n, TESS_F32, &o->x[i]));
    return tess_mem_alloc_array(bench->mem, TESS_POOL_MISC, (size_t)n, sizeof(float), "bench operand", &o->y);
}

static void destroy(const kernels_bench *bench, operands *o)
{
    for (int i = 0; i < MAX_INPUTS; i++)
        tess_mem_free(bench->mem, o->x[i]);
    tess_mem_free(bench->mem, o->y);
}

/* Operands come with the first kernel that is wanted and serve all. */
static tess_status run_kernels(const kernels_bench *bench, int64_t n, operands *o)
{
    for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
        char name[128];
        snprintf(name, sizeof(name), "%s %lld", kernels[i].name, (long long)n);
        if (!tess_bench_wanted(bench->options, name))
            continue;
        if (o->y == NULL)
            TESS_TRY(create(bench, n, o));
        TESS_TRY(kernels_bench_memory_row(bench, name, (tess_bench_side){kernels[i].run, o},
                                          (double)kernels[i].bytes * (double)n));
    }
    return TESS_OK;
}

tess_status kernels_bench_flat(const kernels_bench *bench)
{
    operands o = {.y = NULL};
    TESS_TRY(tess_bench_report_table(bench->report, "parameters", kernels_bench_memory_columns,
                                     KERNELS_BENCH_MEMORY_COLUMNS));
    tess_status status = run_kernels(bench, bench->options->common.quick ? QUICK : FULL, &o);
    destroy(bench, &o);
    return status;
}
