/* `tessera bench machine` measures the maximum speed of the hardware for each number of threads. */
#include <stdio.h>

#include "bench/bench.h"
#include "bench/bench_memory.h"
#include "bench/samples.h"
#include "device/peak.h"
#include "device/stream.h"

typedef struct context {
    tess_mem *mem;
    const tess_bench_options *options;
    tess_bench_report *report;
    int n_threads, repeats;
    tess_stream *stream;       /* stream of a subject that uses a kernel table */
    tess_bench_arrays *arrays; /* arrays of subjects without one */
} context;

/* A subject. It gets one row for each number of threads. */
typedef struct subject {
    const char *name;
    double (*rate)(const context *x, const struct subject *subject); /* returns 0 if this machine cannot run it */
    const char *table; /* kernel table; NULL: the subject measures memory */
    tess_dtype dtype;
    tess_bench_traffic traffic;
    bool huge_pages;
} subject;

/* Measures arithmetic in registers only, without memory. */
static double peak(const context *x, const subject *s)
{
    return tess_peak_flops(x->stream, s->dtype);
}

static double traffic(const context *x, const subject *s)
{
    return tess_bench_traffic_rate(x->arrays, s->traffic);
}

static double cache_rate(const context *x, size_t bytes)
{
    return tess_bench_cache_read_rate(x->arrays, bytes, x->options->common.quick ? 0.001 : 0.01);
}

static double l2(const context *x, TESS_UNUSED const subject *s)
{
    size_t bytes = tess_bench_cache_bytes(2) / 2;
    return bytes > 0 ? cache_rate(x, bytes) : 0;
}

/* Uses eight times L2, so that L2 helps little, but no more than half of L3 for all threads. */
static double l3(const context *x, TESS_UNUSED const subject *s)
{
    size_t part = tess_bench_cache_bytes(3) / 2 / (size_t)x->n_threads, l2_bytes = tess_bench_cache_bytes(2);
    size_t bytes = part < 8 * l2_bytes ? part : 8 * l2_bytes;
    return bytes > 2 * l2_bytes ? cache_rate(x, bytes) : 0;
}

static double touch(const context *x, const subject *s)
{
    return tess_bench_touch_rate(x->arrays->threads, (size_t)(x->options->common.quick ? 16 : 256) << 20,
                                 s->huge_pages);
}

static const subject arithmetic[] = {
    {"bf16 tile peak", peak, .table = "amx", .dtype = TESS_BF16},
    {"bf16 dot product peak, 512 bits", peak, .table = "avx512_bf16", .dtype = TESS_BF16},
    {"fp32 FMA peak, 512 bits", peak, .table = "avx512", .dtype = TESS_F32},
    {"fp32 FMA peak, 256 bits", peak, .table = "avx2", .dtype = TESS_F32},
    {.name = NULL},
};

static const subject memory[] = {
    {"memory read", traffic, .traffic = TESS_BENCH_READ},
    {"memory copy, streaming stores", traffic, .traffic = TESS_BENCH_COPY},
    {"memory triad, streaming stores", traffic, .traffic = TESS_BENCH_TRIAD},
    {"memory copy, ordinary stores", traffic, .traffic = TESS_BENCH_COPY_CACHED},
    {"memory triad, ordinary stores", traffic, .traffic = TESS_BENCH_TRIAD_CACHED},
    {.name = "L2 read", .rate = l2},
    {.name = "L3 read", .rate = l3},
    {"first touch, 4 KiB pages", touch, .huge_pages = false},
    {"first touch, huge pages asked", touch, .huge_pages = true},
    {.name = NULL},
};

/* Adds a row with a rate in units of 1e9. */
static tess_status add_row(const context *x, const subject *s)
{
    char name[128];
    double rates[TESS_BENCH_MAX_SAMPLES];
    snprintf(name, sizeof(name), "%s, %d thread%s", s->name, x->n_threads, x->n_threads > 1 ? "s" : "");
    if (!tess_bench_wanted(x->options, name))
        return TESS_OK;
    for (int r = 0; r < x->repeats; r++) {
        rates[r] = s->rate(x, s) / 1e9;
        if (rates[r] == 0)
            return TESS_OK;
    }
    return tess_bench_report_row(x->report, name,
                                 (double[]){tess_bench_median(rates, x->repeats), tess_bench_max(rates, x->repeats)});
}

/* Runs a subject. If this machine lacks the instructions of its kernel table, it gets no row. */
static tess_status run_subject(context *x, const subject *s)
{
    if (s->table != NULL && tess_stream_create(x->mem, x->n_threads, s->table, &x->stream) != TESS_OK) {
        tess_error_clear();
        return TESS_OK;
    }
    tess_status status = add_row(x, s);
    tess_stream_destroy(&x->stream);
    return status;
}

static tess_status run_table(context *x, const char *title, const char *columns, const subject *subjects)
{
    int most = tess_bench_threads(x->options);
    tess_status status = TESS_OK;
    TESS_TRY(tess_bench_report_table(x->report, title, columns));
    for (x->n_threads = 1; x->n_threads <= most && status == TESS_OK; x->n_threads++) {
        if (subjects->table == NULL)
            status =
                tess_bench_arrays_create(x->mem, x->n_threads, x->options->common.quick ? 32 << 20 : 0, &x->arrays);
        for (const subject *s = subjects; s->name != NULL && status == TESS_OK; s++)
            status = run_subject(x, s);
        tess_bench_arrays_destroy(&x->arrays);
    }
    return status;
}

static tess_status run(tess_mem *mem, const tess_bench_options *options, tess_bench_report *report)
{
    context x = {mem, options, report, .repeats = tess_bench_rounds(options, 9, 3)};
    TESS_TRY(run_table(&x, "arithmetic, registers only", ">median[GFLOP/s], >best[GFLOP/s]", arithmetic));
    return run_table(&x, "memory and caches, all threads together", ">median[GB/s], >best[GB/s]", memory);
}

const tess_bench tess_bench_machine = {"machine", "peaks of arithmetic, caches and memory, per number of threads", run,
                                       NULL};
