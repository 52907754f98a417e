#include "bench/plan/calibrate.h"

#include <stdio.h>
#include <string.h>

#include "base/mem/scoped.h"
#include "base/os/machine.h"
#include "base/os/os.h"
#include "bench/comm/comm_job.h"
#include "bench/measuring_ranks.h"
#include "device/peak.h"
#include "nn/named_models.h"
#include "plan/dry_rank.h"

enum { MOST_CALLS = 4096, WALKS = 3 };

/* ---- Kernels ---- */
typedef struct kernels_plan {
    const tess_config *config;
    const tess_model_config *model;
    int n_ranks, n_samples;
} kernels_plan;

typedef struct kernels_result {
    int n, threads;
    tess_kernel_time calls[MOST_CALLS];
} kernels_result;

/* Runs calls on threads of its own, because those of a dry rank run no loops. */
typedef struct call_clock {
    tess_stream *stream;
    int threads;
} call_clock;

/* The time of one thread is that of its core, so that other processes do not count. */
static double now_s(const call_clock *c)
{
    return c->threads == 1 ? tess_os_thread_cpu_s() : tess_os_now_s();
}

/* Keeps a thread awake. */
static void stay_awake(TESS_UNUSED void *context, TESS_UNUSED int64_t begin, TESS_UNUSED int64_t end,
                       TESS_UNUSED int worker)
{
    static const uint64_t awake_ns = 50000;
    const uint64_t begin_ns = tess_os_now_ns();
    while (tess_os_now_ns() - begin_ns < awake_ns)
        ;
}

static tess_status time_call(void *self, const tess_kernel_row *row, const void *args, double *seconds)
{
    const call_clock *c = self;
    /* Threads fall asleep between calls here, and not in a step, where the next call follows at once. */
    tess_threads_run(tess_stream_threads(c->stream), stay_awake, NULL, c->threads > 1 ? c->threads : 0, 1);
    const double begin_s = now_s(c);
    TESS_TRY(row->call(tess_stream_kernels(c->stream), c->stream, args));
    *seconds = now_s(c) - begin_s;
    return TESS_OK;
}

/* Walks the calls of a dry rank's step. The first calls of each kind run, in the order of a step, so each finds the
 * caches as it does there. */
static tess_status walk(const kernels_plan *plan, int rank, tess_work_trace *trace)
{
    tess_dry_report report;
    tess_memory_plan of = tess_memory_plan_of(plan->config, plan->n_ranks);
    of.moves = true;
    of.most_micros = 4; /* the fourth is the first that adds sums of sums */
    of.fills = true;
    of.trace = trace;
    return tess_dry_rank(&of, plan->model, rank, &report);
}

static void take_times(const tess_work_trace *trace, int threads, kernels_result *result)
{
    result->threads = threads;
    for (size_t i = 0; i < trace->n_calls && result->n < MOST_CALLS; i++)
        if (trace->calls[i].n_samples > 0)
            result->calls[result->n++] = (tess_kernel_time){
                .key = trace->calls[i].key, .threads = threads, .seconds = tess_call_median(&trace->calls[i])};
}

static tess_status measure_calls(tess_runtime *rt, const void *context, void *out)
{
    const kernels_plan *plan = context;
    const tess_memory_plan of = tess_memory_plan_of(plan->config, plan->n_ranks);
    call_clock clock = {.threads = tess_dry_threads(&of)};
    tess_work_trace trace = {.mem = tess_runtime_mem(rt), .even_experts = true};
    const tess_call_timer timer = {.self = &clock, .n_samples = plan->n_samples, .time = time_call};
    trace.timer = &timer;
    TESS_TRY(tess_stream_create(trace.mem, clock.threads, NULL, &clock.stream));
    tess_status status = TESS_OK;
    for (int i = 0; i < WALKS && status == TESS_OK; i++)
        status = walk(plan, 0, &trace);
    if (status == TESS_OK)
        take_times(&trace, clock.threads, out);
    tess_work_trace_free(&trace);
    tess_stream_destroy(&clock.stream);
    return status;
}

static tess_status add_calls(const kernels_result *result, tess_kernel_times *times)
{
    for (int i = 0; i < result->n; i++)
        TESS_TRY(tess_kernel_times_add(times, &result->calls[i]));
    return TESS_OK;
}

tess_status tess_calibrate_kernels(const tess_config *config, const tess_model_config *model, int n_ranks,
                                   int n_samples, tess_kernel_times *times)
{
    const kernels_plan plan = {.config = config, .model = model, .n_ranks = n_ranks, .n_samples = n_samples};
    const tess_memory_plan of = tess_memory_plan_of(config, n_ranks);
    const int at_once = tess_os_cores() / tess_dry_threads(&of), n = n_ranks < at_once ? n_ranks : at_once;
    const tess_bench_ranks ranks = {.n = n > 1 ? n : 1, .bind = n > 1, .run = measure_calls, .plan = &plan};
    TESS_AUTO(tess_mem_drop) kernels_result *result = NULL;
    TESS_TRY(TESS_NEW(times->mem, 1, "times", &result));
    TESS_TRY_CTX(tess_bench_ranks_run(&ranks, result, sizeof(*result)), "measuring kernels");
    return add_calls(result, times);
}

/* ---- Operations ---- */
/* The bytes that come to a rank from others, by the size that the bench states (comm_op_bus_factor). */
static double received_of(const comm_op *op, int ranks, size_t bytes)
{
    return op->sized ? comm_op_bus_factor(op, ranks) * (double)bytes : 0;
}

static bool knows_operations(const tess_kernel_times *times, int n_ranks)
{
    size_t i = 0;
    while (i < times->n_ops && times->ops[i].ranks != n_ranks)
        i++;
    return i < times->n_ops;
}

tess_status tess_calibrate_operations(int n_ranks, tess_kernel_times *times)
{
    static const size_t sizes[] = {1 << 10, 32 << 10, 512 << 10, 4 << 20, 32 << 20};
    enum { N_SIZES = sizeof(sizes) / sizeof(sizes[0]) };
    int n;
    const comm_op *ops = comm_op_list(&n);
    if (n_ranks == 1 || knows_operations(times, n_ranks))
        return TESS_OK;
    for (int i = 0; i < n; i++) {
        const bool gathers = ops[i].kind == TESS_TRACE_ALL_GATHER_PIECES;
        comm_case which = {.op = &ops[i],
                           .dtype = gathers ? TESS_BF16 : TESS_F32,
                           .ranks = n_ranks,
                           .n_sizes = ops[i].sized ? N_SIZES : 1};
        comm_result result = {.memory_bytes_per_s = 0};
        for (int s = 0; s < N_SIZES; s++)
            which.bytes[s] = (sizes[s] + (size_t)n_ranks * 64 - 1) / ((size_t)n_ranks * 64) * ((size_t)n_ranks * 64);
        if (!ops[i].sized)
            which.bytes[0] = 0;
        TESS_TRY(comm_job_ours(&which, &result));
        for (int s = 0; s < which.n_sizes; s++)
            TESS_TRY(
                tess_kernel_times_add_op(times, &(tess_op_time){.kind = (int)ops[i].kind,
                                                                .ranks = n_ranks,
                                                                .bytes = received_of(&ops[i], n_ranks, which.bytes[s]),
                                                                .seconds = result.window[s].median_us * 1e-6}));
    }
    return TESS_OK;
}

/* ---- Peaks ---- */
tess_status tess_calibrate_peaks(tess_mem *mem, tess_kernel_times *times)
{
    tess_stream *stream;
    TESS_TRY(tess_stream_create(mem, tess_os_cores(), NULL, &stream));
    times->flops_bf16 = tess_peak_flops(stream, TESS_BF16);
    times->flops_f32 = tess_peak_flops(stream, TESS_F32);
    tess_stream_destroy(&stream);
    return TESS_OK;
}

/* ---- The usual set ---- */
/* Two layers have all kinds of calls of a model. */
static tess_status calibrate_model(tess_mem *mem, const char *name, int rows, int n_ranks, tess_kernel_times *times)
{
    enum { LAYERS = 2, SAMPLES = 3 };
    TESS_AUTO(tess_config_free) tess_config config = {0};
    tess_model_config model;
    char text[128];
    TESS_TRY(tess_config_parse(mem, "", 0, "defaults", &config));
    TESS_TRY(tess_model_config_load(name, &model));
    model.n_layers = LAYERS;
    snprintf(text, sizeof(text), "training.local_batch_size=%d", rows);
    TESS_TRY(tess_config_override(&config, text));
    TESS_TRY(tess_config_override(&config, "training.seq_len=1024"));
    snprintf(text, sizeof(text), "training.global_batch_size=%d", 2 * rows * n_ranks);
    TESS_TRY(tess_config_override(&config, text));
    TESS_TRY(tess_config_check_step(&config, n_ranks));
    return tess_calibrate_kernels(&config, &model, n_ranks, SAMPLES, times);
}

tess_status tess_calibrate_usual(tess_mem *mem, int most_ranks, tess_kernel_times *times)
{
    static const char *const models[] = {"llama-5m", "gpt2-124m", "llama-1b"};
    static const int rows[] = {1, 4};
    TESS_TRY(tess_calibrate_peaks(mem, times));
    for (int n = 1; n <= most_ranks && n <= tess_os_cores(); n *= 2)
        for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++)
            for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++)
                TESS_TRY(calibrate_model(mem, models[i], rows[r], n, times));
    for (int n = 2; n <= most_ranks; n *= 2)
        TESS_TRY(tess_calibrate_operations(n, times));
    return TESS_OK;
}
