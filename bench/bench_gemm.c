/* Speed of matrix products at the shapes of training and generation: best of several repetitions.
 *
 *   bench_gemm [table] [threads] [repetitions]    (default: the best table, 1, 7) */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/os/os.h"
#include "device/stream.h"

typedef struct shape {
    const char *what;
    int64_t m, n, k;
    bool trans_a, trans_b;
    tess_dtype ab_dtype, c_dtype;
} shape;

static const shape shapes[] = {
    {"square", 2048, 2048, 2048, false, true, TESS_BF16, TESS_BF16},
    {"square, B not transposed", 2048, 2048, 2048, false, false, TESS_BF16, TESS_BF16},
    {"square, A transposed", 2048, 2048, 2048, true, false, TESS_BF16, TESS_F32},
    {"square, float result", 2048, 2048, 2048, false, true, TESS_BF16, TESS_F32},
    {"square", 4096, 4096, 4096, false, true, TESS_BF16, TESS_BF16},
    {"forward", 2048, 256, 256, false, true, TESS_BF16, TESS_BF16},
    {"forward", 2048, 512, 512, false, true, TESS_BF16, TESS_BF16},
    {"forward", 2048, 1024, 1024, false, true, TESS_BF16, TESS_BF16},
    {"forward", 8192, 1024, 4096, false, true, TESS_BF16, TESS_BF16},
    {"dX", 2048, 256, 768, false, false, TESS_BF16, TESS_BF16},
    {"dX", 2048, 1024, 4096, false, false, TESS_BF16, TESS_BF16},
    {"dW", 256, 256, 2048, true, false, TESS_BF16, TESS_F32},
    {"dW", 1024, 1024, 2048, true, false, TESS_BF16, TESS_F32},
    {"dW", 4096, 1024, 8192, true, false, TESS_BF16, TESS_F32},
    {"logits", 512, 32000, 512, false, true, TESS_BF16, TESS_F32},
    {"small", 64, 64, 64, false, true, TESS_BF16, TESS_BF16},
    {"prefill", 128, 1024, 1024, false, true, TESS_BF16, TESS_BF16},
    {"decode", 1, 1024, 1024, false, true, TESS_BF16, TESS_BF16},
    {"decode", 1, 4096, 4096, false, true, TESS_BF16, TESS_BF16},
    {"decode", 4, 4096, 4096, false, true, TESS_BF16, TESS_BF16},
    {"decode", 32, 4096, 4096, false, true, TESS_BF16, TESS_BF16},
    {"square", 2048, 2048, 2048, false, true, TESS_F32, TESS_F32},
    {"square, A transposed", 2048, 2048, 2048, true, false, TESS_F32, TESS_F32},
    {"forward", 2048, 256, 256, false, true, TESS_F32, TESS_F32},
    {"dW", 1024, 1024, 2048, true, false, TESS_F32, TESS_F32},
    {"decode", 1, 4096, 4096, false, true, TESS_F32, TESS_F32},
};

static _Noreturn void fail(void)
{
    fprintf(stderr, "bench_gemm: %s\n", tess_error_message());
    exit(1);
}

/* Ones of alternating sign: the values do not matter, denormals and NaN would. */
static void *make(tess_mem *mem, int64_t count, tess_dtype dtype)
{
    void *x;
    if (tess_mem_alloc_array(mem, TESS_POOL_MISC, (size_t)count, tess_dtype_size(dtype), "operand", &x) != TESS_OK)
        fail();
    for (int64_t i = 0; i < count; i++) {
        if (dtype == TESS_F32)
            ((float *)x)[i] = i % 3 == 0 ? -1 : 1;
        else
            ((uint16_t *)x)[i] = i % 3 == 0 ? 0xbf80 : 0x3f80;
    }
    return x;
}

static double best_seconds(tess_stream *s, const tess_gemm *g, int repetitions)
{
    double best = 1e30;
    for (int i = -1; i < repetitions; i++) {
        double begin = tess_os_now_s();
        if (s->kernels->gemm(s, g) != TESS_OK)
            fail();
        double seconds = tess_os_now_s() - begin;
        if (i >= 0 && seconds < best)
            best = seconds;
    }
    return best;
}

int main(int argc, char **argv)
{
    const char *table = argc > 1 ? argv[1] : NULL;
    int n_threads = argc > 2 ? atoi(argv[2]) : 1, repetitions = argc > 3 ? atoi(argv[3]) : 7;
    tess_mem *mem;
    tess_stream *s;
    if (tess_mem_create(&mem) != TESS_OK || tess_stream_create(mem, n_threads, table, &s) != TESS_OK)
        fail();
    printf("table %s, %d thread%s, best of %d\n", s->kernels->name, n_threads, n_threads == 1 ? "" : "s", repetitions);
    printf("%-26s %6s %6s %6s  %-20s %10s %10s %8s\n", "", "m", "n", "k", "types", "ms", "GFLOP/s", "GB/s");
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        const shape *x = &shapes[i];
        tess_gemm g = {.m = x->m, .n = x->n, .k = x->k, .trans_a = x->trans_a, .trans_b = x->trans_b};
        g.ab_dtype = x->ab_dtype;
        g.c_dtype = x->c_dtype;
        g.lda = x->trans_a ? x->m : x->k;
        g.ldb = x->trans_b ? x->k : x->n;
        g.ldc = x->n;
        void *a = make(mem, x->m * x->k, x->ab_dtype), *b = make(mem, x->k * x->n, x->ab_dtype);
        g.a = a;
        g.b = b;
        g.c = make(mem, x->m * x->n, x->c_dtype);
        double seconds = best_seconds(s, &g, repetitions);
        size_t bytes = (size_t)(x->m * x->k + x->k * x->n) * tess_dtype_size(x->ab_dtype) +
                       (size_t)(x->m * x->n) * tess_dtype_size(x->c_dtype);
        char types[32];
        snprintf(types, sizeof(types), "%s %s", tess_dtype_name(x->ab_dtype), tess_dtype_name(x->c_dtype));
        printf("%-26s %6" PRId64 " %6" PRId64 " %6" PRId64 "  %-20s %10.3f %10.1f %8.1f\n", x->what, x->m, x->n, x->k,
               types, seconds * 1e3, 2e-9 * (double)x->m * (double)x->n * (double)x->k / seconds,
               1e-9 * (double)bytes / seconds);
        tess_mem_free(mem, a);
        tess_mem_free(mem, b);
        tess_mem_free(mem, g.c);
    }
    tess_stream_destroy(&s);
    return tess_mem_destroy(&mem) != 0;
}
