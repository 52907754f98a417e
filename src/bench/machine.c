/* `tessera bench machine`: what the silicon can do at most, per number of threads. */
#include <stdio.h>

#include "base/os/os.h"
#include "bench/bench.h"
#include "bench/memory.h"
#include "bench/samples.h"
#include "device/peak.h"
#include "device/stream.h"

typedef struct context {
    tess_mem *mem;
    const tess_bench_options *options;
    tess_bench_report *report;
    int n_threads, repeats;
} context;

/* A rate that may be measured again and again. */
typedef double (*measure_fn)(void *what);

/* One row: `measure` repeated, in units of 1e9; left out when the filter does not let it through. */
static tess_status add_row(const context *x, const char *what, measure_fn measure, void *of)
{
    char name[128];
    tess_bench_samples rates = {0};
    snprintf(name, sizeof(name), "%s, %d thread%s", what, x->n_threads, x->n_threads > 1 ? "s" : "");
    if (!tess_bench_wanted(x->options, name))
        return TESS_OK;
    for (int r = 0; r < x->repeats; r++)
        tess_bench_samples_add(&rates, measure(of) / 1e9);
    return tess_bench_report_row(x->report, name,
                                 (double[]){tess_bench_samples_median(&rates), tess_bench_samples_max(&rates)});
}

/* ---- Arithmetic ---- */

typedef struct peak {
    const char *name, *table;
    tess_dtype dtype;
    tess_stream *stream;
} peak;

static double measure_peak(void *what)
{
    const peak *p = what;
    return tess_peak_flops(p->stream, p->dtype);
}

/* Registers only, no memory. A row whose instructions this machine lacks is left out. */
static tess_status add_peaks(const context *x)
{
    peak peaks[] = {
        {"bf16 tile peak", "amx", TESS_BF16, NULL},
        {"bf16 dot product peak, 512 bits", "avx512_bf16", TESS_BF16, NULL},
        {"fp32 FMA peak, 512 bits", "avx512", TESS_F32, NULL},
        {"fp32 FMA peak, 256 bits", "avx2", TESS_F32, NULL},
    };
    for (size_t i = 0; i < sizeof(peaks) / sizeof(peaks[0]); i++) {
        if (tess_stream_create(x->mem, x->n_threads, peaks[i].table, &peaks[i].stream) != TESS_OK) {
            tess_error_clear();
            continue;
        }
        tess_status status = add_row(x, peaks[i].name, measure_peak, &peaks[i]);
        tess_stream_destroy(&peaks[i].stream);
        TESS_TRY(status);
    }
    return TESS_OK;
}

/* ---- Memory ---- */

typedef struct transfer {
    tess_bench_arrays *arrays;
    tess_bench_traffic traffic;
    size_t cache_bytes; /* that a thread reads again and again */
    double seconds;
} transfer;

static double measure_traffic(void *what)
{
    const transfer *t = what;
    return tess_bench_traffic_rate(t->arrays, t->traffic);
}

static double measure_cache(void *what)
{
    const transfer *t = what;
    return tess_bench_cache_read_rate(t->arrays, t->cache_bytes, t->seconds);
}

/* Half of L2; from L3 what is eight times L2 (so that L2 helps little) but no more than half of L3 for all threads. */
static tess_status add_caches(const context *x, transfer *t)
{
    size_t l2 = tess_bench_cache_bytes(2), l3 = tess_bench_cache_bytes(3) / 2 / (size_t)x->n_threads;
    t->seconds = x->options->common.quick ? 0.001 : 0.01;
    t->cache_bytes = l2 / 2;
    if (l2 > 0)
        TESS_TRY(add_row(x, "L2 read", measure_cache, t));
    t->cache_bytes = l3 < 8 * l2 ? l3 : 8 * l2;
    return t->cache_bytes > 2 * l2 ? add_row(x, "L3 read", measure_cache, t) : TESS_OK;
}

static tess_status add_traffic(const context *x)
{
    tess_bench_arrays *arrays;
    TESS_TRY(tess_bench_arrays_create(x->mem, x->n_threads, x->options->common.quick ? 32 << 20 : 0, &arrays));
    transfer t = {.arrays = arrays};
    tess_status status = TESS_OK;
    for (int i = 0; i < TESS_BENCH_TRAFFIC_COUNT && status == TESS_OK; i++) {
        t.traffic = (tess_bench_traffic)i;
        status = add_row(x, tess_bench_traffic_name(t.traffic), measure_traffic, &t);
    }
    if (status == TESS_OK)
        status = add_caches(x, &t);
    tess_bench_arrays_destroy(&arrays);
    return status;
}

typedef struct fresh {
    tess_threads *threads;
    size_t bytes;
    bool huge;
} fresh;

static double measure_touch(void *what)
{
    const fresh *f = what;
    return tess_bench_touch_rate(f->threads, f->bytes, f->huge);
}

static tess_status add_touch(const context *x)
{
    fresh f = {.bytes = (size_t)(x->options->common.quick ? 16 : 256) << 20};
    TESS_TRY(tess_threads_create(x->mem, x->n_threads, &f.threads));
    tess_status status = add_row(x, "first touch, 4 KiB pages", measure_touch, &f);
    f.huge = true;
    if (status == TESS_OK)
        status = add_row(x, "first touch, huge pages asked", measure_touch, &f);
    tess_threads_destroy(&f.threads);
    return status;
}

/* ---- The bench ---- */

static tess_status run(tess_mem *mem, const tess_bench_options *options, tess_bench_report *report)
{
    static const tess_bench_column arithmetic[] = {{"median", "GFLOP/s", TESS_BENCH_HIGHER},
                                                   {"best", "GFLOP/s", TESS_BENCH_HIGHER}};
    static const tess_bench_column memory[] = {{"median", "GB/s", TESS_BENCH_HIGHER},
                                               {"best", "GB/s", TESS_BENCH_HIGHER}};
    int most = options->common.threads > 0 ? (int)options->common.threads : tess_os_cores();
    context x = {mem, options, report, 1, 9};
    if (options->common.repeat > 0 || options->common.quick)
        x.repeats = options->common.repeat > 0 ? (int)options->common.repeat : 3;
    TESS_TRY(tess_bench_report_table(report, "arithmetic, registers only", arithmetic, 2));
    for (x.n_threads = 1; x.n_threads <= most; x.n_threads++)
        TESS_TRY(add_peaks(&x));
    TESS_TRY(tess_bench_report_table(report, "memory and caches, all threads together", memory, 2));
    for (x.n_threads = 1; x.n_threads <= most; x.n_threads++) {
        TESS_TRY(add_traffic(&x));
        TESS_TRY(add_touch(&x));
    }
    return TESS_OK;
}

const tess_bench tess_bench_machine = {"machine", "peaks of arithmetic, caches and memory, per number of threads", run,
                                       NULL};
