/* The time of GPU work from its launches: by hand where it can be computed, and for a program whose speed is known. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "plan/gpu/launch_log.h"
#include "support/test.h"

enum { LOG_BYTES = 1 << 18 };

typedef struct text {
    char bytes[LOG_BYTES];
    size_t n;
} text;

__attribute__((format(printf, 2, 3))) static void put(text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    t->n += (size_t)vsnprintf(t->bytes + t->n, sizeof(t->bytes) - t->n, format, args);
    va_end(args);
    EXPECT(t->n < sizeof(t->bytes));
}

static tess_machine machine_named(const char *name)
{
    tess_machine m;
    EXPECT_OK(tess_machine_load(test_mem(), name, &m));
    return m;
}

static tess_status read_log(const tess_machine *m, const text *t, tess_launch_totals *totals)
{
    static tess_launch_log log;
    log = (tess_launch_log){.machine = m, .what = "small.log"};
    const tess_status status = tess_launch_log_read(&log, t->bytes, t->n);
    *totals = log.totals;
    return status;
}

static void expect_near(double got, double want, double share)
{
    if (!(fabs(got - want) <= share * want))
        test_fail(__FILE__, __LINE__, "%.9g, expected %.9g within %g%%", got, want, 100 * share);
}

/* ---- llm.c ---- */
/* The launches of a training step of llm.c (train_gpt2, commit f1e2ace), read from its source: 124M, 64 rows of
 * 1,024 tokens on each of 8 GPUs, cuDNN, no fused GELU, no recomputation, ZeRO-1, as its script run_gpt2_124M
 * starts it. NCCL is left out: it runs next to the backward pass, but for the gather of 0.6 ms. */
static const double B = 64, T = 1024, C = 768, V = 50304, LAYERS = 12, PARAMETERS = 124475904, GPUS = 8, BF16 = 2;

/* matmul_forward_cublaslt: with work space, so k may be divided. */
static void put_forward(text *t, double channels, double out)
{
    put(t, "product %.0f %.0f %.0f 2 0 splits\n", out, B * T, channels);
}

/* matmul_backward: the bias in two kernels, then the gradient of the input, which GELU's follows, and that of the
 * weight, which is added. */
static void put_backward(text *t, double channels, double out, bool bias, bool gelu)
{
    const double stream = B * T * BF16;
    if (bias)
        put(t, "moves matmul_backward_bias %.0f\nmoves reduce_add_sum %.0f\n", stream * out, 32 * out * 4);
    put(t, "product %.0f %.0f %.0f 2 0 splits\n", channels, B * T, out);
    if (gelu)
        put(t, "moves gelu_backward_inplace %.0f\n", 3 * stream * channels);
    put(t, "product %.0f %.0f %.0f 2 1 splits\n", channels, out, B * T);
}

static void put_llmc_step(text *t)
{
    const double stream = B * T * C * BF16, attention = 2 * B * T * T * C; /* causal: half of two products */
    put(t, "copy up %.0f\nmoves encoder_forward %.0f\nmoves layernorm_forward %.0f\n", B * T * 4, 2 * stream,
        2 * stream);
    for (int l = 0; l < LAYERS; l++) {
        put_forward(t, C, 3 * C);
        put(t, "attention cudnn_forward %.0f %.0f %.0f 64\n", attention, 4 * stream, T);
        put_forward(t, C, C);
        put(t, "moves fused_residual %.0f\n", 4 * stream);
        put_forward(t, C, 4 * C);
        put(t, "moves gelu_forward %.0f\n", 8 * stream);
        put_forward(t, 4 * C, C);
        put(t, "moves fused_residual %.0f\n", 4 * stream);
    }
    put_forward(t, C, V);
    put(t, "wait queue 0\nfill within %.0f\nfill within %.0f\ncopy up %.0f\n", B * T * 4, PARAMETERS * BF16, B * T * 4);
    put(t, "moves fused_classifier %.0f\nfill within %.0f\n", 2 * B * T * V * BF16, stream);
    put_backward(t, C, V, false, false);
    put(t, "moves layernorm_backward %.0f\n", 4 * stream);
    for (int l = 0; l < LAYERS; l++) {
        put_backward(t, 4 * C, C, true, true);
        put_backward(t, C, 4 * C, true, false);
        put(t, "moves layernorm_backward %.0f\n", 4 * stream);
        put_backward(t, C, C, true, false);
        put(t, "attention cudnn_backward %.0f %.0f %.0f 64\n", 2.5 * attention, 8 * stream, T); /* 5 products */
        put_backward(t, C, 3 * C, true, false);
        put(t, "moves layernorm_backward %.0f\n", 4 * stream);
    }
    put(t, "moves wpe_backward %.0f\ncopy up %.0f\nmoves wte_backward %.0f\n", stream, 3 * B * T * 4, stream);
    put(t, "moves global_sum %.0f\ncopy down 4\nwait queue 0\n", B * T * 4);
    for (int tensor = 0; tensor < 16; tensor++) /* each process has a part of each tensor */
        put(t, "moves global_norm_squared %.0f\n", PARAMETERS / 16 / GPUS * BF16);
    put(t, "moves global_sum 8192\ncopy down 4\nwait queue 0\n");
    for (int tensor = 0; tensor < 16; tensor++)
        put(t, "moves adamw %.0f\n", PARAMETERS / 16 / GPUS * 28);
    put(t, "wait queue 0\n");
}

static double llmc_time(const char *name)
{
    static text t;
    tess_launch_totals totals;
    const tess_machine m = machine_named(name);
    t.n = 0;
    put_llmc_step(&t);
    EXPECT_OK(read_log(&m, &t, &totals));
    printf("llm.c on %s: %.1f ms for 16,384 tokens, %.0f launches a step\n", name,
           totals.time_s * 1e3 * 16384 / (B * T), totals.launches);
    return totals.time_s;
}

/* Published: 468k tokens a second of each of 8 H100, which is 35 ms for 16,384 tokens. The model gives 31.4. Before it
 * knew that a product's result is written after its sums, and how attention depends on the length, it gave 27.3. */
static void llm_c_takes_the_time_that_it_has_published(void)
{
    expect_near(llmc_time("h100-sxm"), B * T / 468e3, .15);
}

/* Its script run_gpt2_124M says "steps in ~300ms" on 8 A100. No figure of the model was chosen by it. */
static void llm_c_takes_the_time_that_it_has_published_on_a100(void)
{
    expect_near(llmc_time("a100-80gb"), .3, .15);
}

/* ---- By hand ---- */
/* 10 multiprocessors of 1 GHz; 1,000 GB/s of memory and 10,000 of cache. */
static tess_machine small_machine(void)
{
    tess_machine m = {.machine = {.name = "small", .kind = TESS_MACHINE_GPU}};
    m.compute = (tess_machine_compute){.bf16_tflops = 100,
                                       .mma_tflops = 10,
                                       .efficiency = 1,
                                       .processors = 10,
                                       .shared_kb = 100,
                                       .clock_ghz = 1,
                                       .launch_us = 3};
    m.memory = (tess_machine_memory){.gb_per_s = 1000,
                                     .efficiency = 1,
                                     .cache_gb_per_s = 10000,
                                     .cache_mb = 40,
                                     .latency_ns = 500,
                                     .cache_latency_ns = 100};
    return m;
}

static void expect_launch(const tess_gpu_launch *l, double seconds, tess_gpu_bound want)
{
    const tess_machine m = small_machine();
    tess_gpu_bound bound;
    expect_near(tess_gpu_launch_time(&m, l, &bound), seconds, 1e-9);
    EXPECT(strcmp(tess_gpu_bound_name(bound), tess_gpu_bound_name(want)) == 0);
}

static void each_part_of_a_gpu_limits_a_launch(void)
{
    const tess_gpu_launch l = {.blocks = 20, .threads = 256};
    tess_gpu_launch x = l;
    x.memory_bytes = 20e6;
    expect_launch(&x, 20e-6, TESS_GPU_BOUND_MEMORY);
    x.cache_bytes = 300e6;
    expect_launch(&x, 30e-6, TESS_GPU_BOUND_CACHE);
    x = l;
    x.warp_instructions = 10 * 4 * .8 * 1000; /* 10 multiprocessors issue 4 a cycle, .8 of the time */
    expect_launch(&x, 1e-6, TESS_GPU_BOUND_ISSUE);
    x.doubles = 10 * 64 * .8 * 2000;
    expect_launch(&x, 2e-6, TESS_GPU_BOUND_ARITHMETIC);
    x.passes = 10 * 3000;
    expect_launch(&x, 3e-6, TESS_GPU_BOUND_PASSES);
    x.tensor_flops = 40e6;
    expect_launch(&x, 4e-6, TESS_GPU_BOUND_TENSOR);
    x.waits = 20 * 8 * 50; /* 50 of each warp; the data is in the cache */
    expect_launch(&x, 5e-6, TESS_GPU_BOUND_LATENCY);
}

/* A multiprocessor with 2 of 11 blocks decides; blocks that do not run at the same time wait one after the other. */
static void a_launch_ends_with_its_slowest_multiprocessor(void)
{
    tess_gpu_launch l = {.blocks = 11, .threads = 32, .passes = 11e3};
    expect_launch(&l, 2e-6, TESS_GPU_BOUND_PASSES);
    l = (tess_gpu_launch){.blocks = 20, .threads = 1024, .shared_bytes = 60 << 10, .waits = 20 * 32 * 10};
    expect_launch(&l, 2e-6, TESS_GPU_BOUND_LATENCY);
    l.shared_bytes = 0;
    expect_launch(&l, 1e-6, TESS_GPU_BOUND_LATENCY);
}

static void occupancy_is_that_of_registers_shared_memory_and_threads(void)
{
    const tess_machine m = small_machine();
    tess_gpu_launch l = {.blocks = 1, .threads = 256};
    expect_near(tess_gpu_occupancy(&m, &l), 1, 1e-9);
    l.registers = 65; /* 9 units of 256 a warp: 28 warps, so 3 blocks */
    expect_near(tess_gpu_occupancy(&m, &l), 3 * 256 / 2048., 1e-9);
    l.shared_bytes = 49 << 10; /* 50 with what a block takes more */
    expect_near(tess_gpu_occupancy(&m, &l), 2 * 256 / 2048., 1e-9);
    l.shared_bytes = 100 << 10;
    EXPECT(tess_gpu_occupancy(&m, &l) == 0);
}

/* 5 short launches take the host 3 us each; after a wait for a long one the host begins anew. */
static void the_host_limits_short_launches(void)
{
    const tess_machine m = small_machine();
    text t = {.n = 0};
    tess_launch_totals totals;
    put(&t, "# a comment\n");
    for (int i = 0; i < 5; i++)
        put(&t, "moves short 1000000\n");
    EXPECT_OK(read_log(&m, &t, &totals));
    expect_near(totals.time_s, 16e-6, 1e-9);
    expect_near(totals.busy_s, 5e-6, 1e-9);
    put(&t, "moves long 100000000\nwait queue 0\nmoves short 1000000\n");
    EXPECT_OK(read_log(&m, &t, &totals));
    expect_near(totals.time_s, (18 + 100 + 5 + 3 + 1) * 1e-6, 1e-9);
    EXPECT(totals.launches == 7 && totals.waits == 1 && totals.n_kernels == 2);
    EXPECT(strcmp(totals.kernels[0].name, "long") == 0);
}

static void kernels_beyond_the_table_are_others(void)
{
    const tess_machine m = small_machine();
    static text t;
    tess_launch_totals totals;
    t.n = 0;
    for (int i = 0; i < TESS_LAUNCH_KERNELS + 1; i++)
        put(&t, "moves kernel%d 1000000\n", i);
    EXPECT_OK(read_log(&m, &t, &totals));
    EXPECT(totals.n_kernels == TESS_LAUNCH_KERNELS);
    EXPECT(strcmp(totals.kernels[0].name, "others") == 0 && totals.kernels[0].n == 2);
    for (int i = 1; i < totals.n_kernels; i++)
        EXPECT(totals.kernels[i].n == 1);
}

/* A product of one wave: twice the peak halves the time of its sums. */
static void products_in_fp8_have_its_peak_on_counted_machines(void)
{
    tess_machine m = small_machine();
    tess_gpu_bound bound;
    const tess_gpu_launch l = {.kind = TESS_GPU_PRODUCT, .m = 1280, .n = 256, .k = 65536, .c_bytes = 2};
    m.memory.gb_per_s = 1e6;
    m.compute.fp8_tflops = 200;
    const double wide_s = tess_gpu_launch_time(&m, &l, &bound);
    m.fp8_products = true;
    expect_near(tess_gpu_launch_time(&m, &l, &bound), wide_s / 2, .01);
}

static void bad_logs_are_refused(void)
{
    static const struct {
        const char *line, *message;
    } rows[] = {{"moves x y", "small.log:1: 'y' is no number"},
                {"moves x -1", "'-1' is no number"},
                {"moves x nan", "'nan' is no number"},
                {"product 1 2 3", "'product' has 4 words, not 6"},
                {"launch x y exact 1 32 0", "'launch' has 7 words"},
                {"attention x 1 1 0 64", "attention without tokens"}};
    tess_machine m = small_machine();
    tess_launch_totals totals;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        text t = {.n = 0};
        put(&t, "%s", rows[i].line);
        EXPECT_FAILS(read_log(&m, &t, &totals), TESS_E_FORMAT, rows[i].message);
    }
    text t = {.n = 0};
    m.compute.processors = 0;
    EXPECT_FAILS(read_log(&m, &t, &totals), TESS_E_INVALID, "compute.processors");
}

static void gpus_of_the_issue_have_all_figures(void)
{
    static const char *const names[] = {"a100-80gb", "h100-sxm", "h200-sxm", "b200"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const tess_machine m = machine_named(names[i]);
        EXPECT(tess_gpu_is_known(&m) && m.compute.mma_tflops <= m.compute.bf16_tflops);
    }
}

static const test_case cases[] = {
    CASE(each_part_of_a_gpu_limits_a_launch),
    CASE(a_launch_ends_with_its_slowest_multiprocessor),
    CASE(occupancy_is_that_of_registers_shared_memory_and_threads),
    CASE(the_host_limits_short_launches),
    CASE(kernels_beyond_the_table_are_others),
    CASE(products_in_fp8_have_its_peak_on_counted_machines),
    CASE(bad_logs_are_refused),
    CASE(gpus_of_the_issue_have_all_figures),
    CASE(llm_c_takes_the_time_that_it_has_published),
    CASE(llm_c_takes_the_time_that_it_has_published_on_a100),
};
TEST_MAIN(cases)
