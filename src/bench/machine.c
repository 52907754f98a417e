/* `tessera bench machine`: what the silicon can do at most, per number of threads. */
#include <math.h>

#include "base/os/os.h"
#include "bench/bench.h"
#include "bench/samples.h"
#include "device/peak.h"
#include "device/stream.h"

typedef struct peak_row {
    const char *name, *table;
    tess_dtype dtype;
} peak_row;

static int repeats(const tess_bench_options *options)
{
    return options->common.repeat > 0 ? (int)options->common.repeat : options->common.quick ? 3 : 9;
}

/* Registers only, no memory. A row whose instructions this machine lacks is left out. */
static tess_status peaks(tess_mem *mem, const tess_bench_options *options, int n_threads, tess_bench_report *report)
{
    static const peak_row rows[] = {
        {"bf16 tile peak", "amx", TESS_BF16},
        {"fp32 FMA peak, 512 bits", "avx512", TESS_F32},
        {"fp32 FMA peak, 256 bits", "avx2", TESS_F32},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char name[128];
        tess_stream *stream;
        tess_bench_samples rates = {0};
        snprintf(name, sizeof(name), "%s, %d thread%s", rows[i].name, n_threads, n_threads > 1 ? "s" : "");
        if (!tess_bench_wanted(options, name))
            continue;
        if (tess_stream_create(mem, n_threads, rows[i].table, &stream) != TESS_OK) {
            tess_error_clear();
            continue;
        }
        for (int r = 0; r < repeats(options); r++)
            tess_bench_samples_add(&rates, tess_peak_flops(stream, rows[i].dtype) / 1e9);
        tess_stream_destroy(&stream);
        TESS_TRY(tess_bench_report_row(report, name,
                                       (double[]){tess_bench_samples_median(&rates), tess_bench_samples_max(&rates)}));
    }
    return TESS_OK;
}

static tess_status run(tess_mem *mem, const tess_bench_options *options, tess_bench_report *report)
{
    static const tess_bench_column arithmetic[] = {{"median", "GFLOP/s", TESS_BENCH_HIGHER},
                                                   {"best", "GFLOP/s", TESS_BENCH_HIGHER}};
    int most = options->common.threads > 0 ? (int)options->common.threads : tess_os_cores();
    TESS_TRY(tess_bench_report_table(report, "arithmetic, registers only", arithmetic, 2));
    for (int n = 1; n <= most; n++)
        TESS_TRY(peaks(mem, options, n, report));
    return TESS_OK;
}

const tess_bench tess_bench_machine = {"machine", "peaks of arithmetic, caches and memory, per number of threads", run};
