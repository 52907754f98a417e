/* The dry device: its kernels touch nothing, and its streams count what they would have moved and computed. */
#include "device/dry_device.h"

#include <string.h>

#include "support/test.h"

enum { M = 5, N = 7, K = 96 };

typedef struct rig {
    tess_mem *mem;
    tess_device *device;
    tess_stream *stream;
    const tess_kernels *kernels;
    void *x;
} rig;

static rig open_rig(void)
{
    rig r;
    EXPECT_OK(tess_mem_create(&r.mem));
    EXPECT_OK(tess_dry_device_open(r.mem, "far", &r.device));
    EXPECT_OK(tess_device_stream(r.device, 2, NULL, &r.stream));
    EXPECT_OK(tess_device_alloc(r.device, TESS_POOL_MISC, 1 << 20, "operand", &r.x));
    r.kernels = tess_stream_kernels(r.stream);
    return r;
}

static void close_rig(rig *r)
{
    tess_device_free(r->device, r->x);
    tess_stream_destroy(&r->stream);
    tess_device_close(&r->device);
    tess_mem_destroy(&r->mem);
}

static void expect_work(const rig *r, double bytes, double flops)
{
    tess_kernel_work work = tess_dry_stream_work(r->stream);
    EXPECT(work.bytes == bytes);
    EXPECT(work.flops == flops);
}

static void work_of_calls_is_added(void)
{
    rig r = open_rig();
    expect_work(&r, 0, 0);
    EXPECT_OK(r.kernels->add(r.stream, &(tess_add_args){.a = r.x, .b = r.x, .y = r.x, .n = N, .dtype = TESS_BF16}));
    expect_work(&r, 3 * 2 * N, N);
    const tess_gemm g = {.m = M,
                         .n = N,
                         .k = K,
                         .a = r.x,
                         .lda = K,
                         .b = r.x,
                         .ldb = N,
                         .c = r.x,
                         .ldc = N,
                         .ab_dtype = TESS_F32,
                         .c_dtype = TESS_F32};
    EXPECT_OK(r.kernels->gemm(r.stream, &g));
    expect_work(&r, 6 * N + 4 * (M * K + K * N + M * N), N + 2 * M * N * K);
    close_rig(&r);
}

/* Runs of copies call the row `copy`, and float16 the rows of float32. */
static void rows_that_others_are_composed_of_are_counted_once(void)
{
    rig r = open_rig();
    const tess_value_run runs[] = {{r.x, r.x, 3}, {r.x, r.x, 0}, {r.x, r.x, 4}};
    const tess_convert_runs_args copies = {.runs = runs, .n_runs = 3, .from = TESS_F32, .to = TESS_F32};
    EXPECT_OK(r.kernels->convert_runs(r.stream, &copies));
    expect_work(&r, 2 * 4 * 7, 0);
    EXPECT_OK(
        r.kernels->scale(r.stream, &(tess_scale_args){.x = r.x, .factor = 2, .y = r.x, .n = N, .dtype = TESS_F16}));
    expect_work(&r, 2 * 4 * 7 + 2 * 2 * N, N);
    EXPECT(tess_stream_work_bytes(r.stream) >= N * sizeof(float));
    close_rig(&r);
}

/* A failing call ends like one of the host. */
static void calls_are_checked(void)
{
    rig r = open_rig();
    EXPECT_FAILS(r.kernels->add(r.stream, &(tess_add_args){.a = r.x, .b = r.x, .y = r.x, .n = N, .dtype = TESS_I32}),
                 TESS_E_UNSUPPORTED, "only float32 and bfloat16");
    close_rig(&r);
}

/* Products that are too small for threads, or have nothing to add up (k = 0), write no result either. */
static void small_products_are_not_computed(void)
{
    static const tess_dtype dtypes[] = {TESS_F32, TESS_BF16};
    static const int64_t sizes[][3] = {{1, 8, 8}, {M, N, 4}, {M, N, 0}, {64, 64, 0}};
    rig r = open_rig();
    float *a, *c;
    EXPECT_OK(tess_device_alloc(r.device, TESS_POOL_MISC, 64 * 64 * sizeof(float), "operand", (void **)&a));
    EXPECT_OK(tess_device_alloc(r.device, TESS_POOL_MISC, 64 * 64 * sizeof(float), "result", (void **)&c));
    memset(a, 0, 64 * 64 * sizeof(float));
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (int d = 0; d < 2; d++)
            for (int trans_b = 0; trans_b < 2; trans_b++) {
                const tess_gemm g = {.m = sizes[i][0],
                                     .n = sizes[i][1],
                                     .k = sizes[i][2],
                                     .a = a,
                                     .lda = 64,
                                     .b = a,
                                     .ldb = 64,
                                     .c = c,
                                     .ldc = 64,
                                     .trans_b = trans_b != 0,
                                     .ab_dtype = dtypes[d],
                                     .c_dtype = TESS_F32};
                c[0] = 1;
                EXPECT_OK(r.kernels->gemm(r.stream, &g));
                EXPECT(c[0] == 1);
            }
    tess_device_free(r.device, a);
    tess_device_free(r.device, c);
    close_rig(&r);
}

static const test_case cases[] = {
    {.name = "work_of_calls_is_added", .run = work_of_calls_is_added},
    {.name = "rows_that_others_are_composed_of_are_counted_once",
     .run = rows_that_others_are_composed_of_are_counted_once},
    {.name = "small_products_are_not_computed", .run = small_products_are_not_computed},
    {.name = "calls_are_checked", .run = calls_are_checked},
};

TEST_MAIN(cases)
