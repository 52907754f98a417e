/* `tessera bench kernels`: each hot kernel at the shapes of real models, against the machine and against others. */
#include <string.h>

#include "base/os/os.h"
#include "bench/kernels_impl.h"
#include "device/peak.h"

enum { DEFAULT_ROUNDS = 5, QUICK_ROUNDS = 2, PATTERN = 4093 };

double kernels_bench_peak_bf16(void *stream)
{
    return tess_peak_flops(stream, TESS_BF16);
}

double kernels_bench_peak_f32(void *stream)
{
    return tess_peak_flops(stream, TESS_F32);
}

double kernels_bench_triad(void *arrays)
{
    return tess_bench_traffic_rate(arrays, TESS_BENCH_TRIAD);
}

double kernels_bench_read(void *arrays)
{
    return tess_bench_traffic_rate(arrays, TESS_BENCH_READ);
}

/* A pattern of prime length, repeated: no two rows alike, and filled at the speed of memory. */
tess_status kernels_bench_operand(const kernels_bench *bench, int64_t count, tess_dtype dtype, void **out)
{
    size_t size = tess_dtype_size(dtype), total = (size_t)count * size, filled = PATTERN * size;
    union {
        float f32[PATTERN];
        uint16_t bf16[PATTERN];
    } pattern;
    for (int i = 0; i < PATTERN; i++) {
        float value = (float)((i * 2654435761u >> 16) % 2001) / 1000.5f - 1;
        uint32_t bits;
        memcpy(&bits, &value, sizeof(bits));
        if (dtype == TESS_BF16)
            pattern.bf16[i] = (uint16_t)(bits >> 16);
        else
            pattern.f32[i] = value;
    }
    TESS_TRY(tess_mem_alloc(bench->mem, TESS_POOL_MISC, total, "bench operand", out));
    memcpy(*out, &pattern, total < filled ? total : filled);
    for (; filled < total; filled *= 2)
        memcpy((char *)*out + filled, *out, total - filled < filled ? total - filled : filled);
    return TESS_OK;
}

const tess_bench_column kernels_bench_memory_columns[KERNELS_BENCH_MEMORY_COLUMNS] = {
    {"limit", "% triad", TESS_BENCH_HIGHER}, {"rate", "GB/s", TESS_BENCH_NEITHER}, {"time", "ms", TESS_BENCH_NEITHER},
    {"warm", "ms", TESS_BENCH_NEITHER},      {"runs", "", TESS_BENCH_NEITHER},
};

tess_status kernels_bench_memory_row(const kernels_bench *bench, const char *name, tess_bench_side side, double bytes)
{
    tess_bench_race cold = {.n_sides = 1, .side = {side}, .rounds = bench->rounds, .budget_s = 2};
    cold.limit = kernels_bench_triad;
    cold.limit_self = bench->arrays;
    cold.cold = true;
    TESS_TRY_CTX(tess_bench_race_run(&cold), "%s", name);
    tess_bench_race warm = cold;
    warm.limit = kernels_bench_peak_f32;
    warm.limit_self = bench->stream;
    warm.cold = false;
    TESS_TRY_CTX(tess_bench_race_run(&warm), "%s", name);
    double seconds = tess_bench_race_median_s(&cold, 0);
    return tess_bench_report_row(bench->report, name,
                                 (double[]){100 * tess_bench_race_share(&cold, bytes), bytes / seconds / 1e9,
                                            seconds * 1e3, tess_bench_race_median_s(&warm, 0) * 1e3, cold.n_rounds});
}

/* Arrays that leave nothing of a kernel's operands in the caches. */
static size_t limit_bytes(const tess_bench_options *options)
{
    size_t l3 = 2 * tess_bench_cache_bytes(3), least = (size_t)64 << 20;
    if (options->common.quick)
        return 4 << 20;
    return l3 > least ? l3 : least;
}

static tess_status run_with(kernels_bench *bench)
{
    TESS_TRY(tess_bench_report_fact(bench->report, "threads", "%d", tess_threads_count(bench->stream->threads)));
    TESS_TRY(tess_bench_report_fact(bench->report, "peers", "%s",
                                    bench->peers != NULL ? bench->peers->versions
                                                         : "none: libtessera_bench_peers.so is not there"));
    TESS_TRY(kernels_bench_gemm(bench));
    TESS_TRY(kernels_bench_attention(bench));
    TESS_TRY(kernels_bench_rows(bench));
    TESS_TRY(kernels_bench_vocab(bench));
    return kernels_bench_flat(bench);
}

static tess_status run(tess_mem *mem, const tess_bench_options *options, tess_bench_report *report)
{
    kernels_bench bench = {.mem = mem, .options = options, .report = report};
    int n_threads = options->common.threads > 0 ? (int)options->common.threads : tess_os_cores();
    const char *table = options->common.table[0] != '\0' ? options->common.table : NULL;
    bench.rounds = options->common.quick ? QUICK_ROUNDS : DEFAULT_ROUNDS;
    if (options->common.repeat > 0)
        bench.rounds = (int)options->common.repeat;
    TESS_TRY(tess_stream_create(mem, n_threads, table, &bench.stream));
    tess_status status = tess_bench_arrays_create(mem, n_threads, limit_bytes(options), &bench.arrays);
    bench.peers = tess_bench_peers_open(bench.stream->kernels->name);
    if (bench.peers != NULL)
        bench.peers->set_threads(n_threads);
    if (status == TESS_OK)
        status = run_with(&bench);
    tess_bench_arrays_destroy(&bench.arrays);
    tess_stream_destroy(&bench.stream);
    return status;
}

const tess_bench tess_bench_kernels = {
    "kernels", "hot kernels at the shapes of GPT-2 and Llama: % of the machine, ratio to oneDNN and OpenBLAS", run,
    NULL};
