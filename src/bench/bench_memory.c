#include "bench/bench_memory.h"

#include <string.h>
#include <sys/mman.h>

#include "base/os/os.h"
#include "bench/bench.h"
#include "bench/memory_loops.h"
#include "device/cpuid.h"

enum { GRAIN = 1024, PAGE = 4096, HUGE = 2 << 20 };

/* ---- Loops for any machine: no streaming stores ---- */

static void read_plain(const float *a, TESS_UNUSED const float *b, float *c, int64_t n)
{
    float sums[16] = {0};
    for (int64_t i = 0; i < n; i += 16)
        for (int j = 0; j < 16; j++)
            sums[j] += a[i + j];
    for (int j = 1; j < 16; j++)
        sums[0] += sums[j];
    c[0] = sums[0];
}

static void copy_plain(const float *a, TESS_UNUSED const float *b, float *c, int64_t n)
{
    memcpy(c, a, (size_t)n * sizeof(float));
}

static void triad_plain(const float *a, const float *b, float *c, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        c[i] = a[i] + 3 * b[i];
}

static tess_bench_loop *loop_for(tess_bench_traffic traffic)
{
    static tess_bench_loop *const plain[TESS_BENCH_TRAFFIC_COUNT] = {[TESS_BENCH_READ] = read_plain,
                                                                     [TESS_BENCH_COPY] = copy_plain,
                                                                     [TESS_BENCH_TRIAD] = triad_plain,
                                                                     [TESS_BENCH_COPY_CACHED] = copy_plain,
                                                                     [TESS_BENCH_TRIAD_CACHED] = triad_plain};
#if defined(__x86_64__)
    char missing[256];
    if (tess_cpu_supports(CPU_AVX2, missing, sizeof(missing)))
        return tess_bench_loops_avx2[traffic];
#endif
    return plain[traffic];
}

/* ---- Arrays ---- */

static void fill(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    tess_bench_arrays *x = context;
    for (int64_t i = begin; i < end; i++) {
        x->a[i] = 1;
        x->b[i] = 2;
        x->c[i] = 0;
    }
}

void tess_bench_arrays_destroy(tess_bench_arrays **arrays)
{
    tess_bench_arrays *x = *arrays;
    if (x == NULL)
        return;
    tess_threads_destroy(&x->threads);
    tess_mem_drop(arrays);
}

tess_status tess_bench_arrays_create(tess_mem *mem, int n_threads, size_t bytes, tess_bench_arrays **arrays)
{
    TESS_AUTO(tess_bench_arrays_destroy) tess_bench_arrays *x = NULL;
    TESS_TRY(TESS_NEW(mem, 1, "bench arrays", &x));
    x->mem = mem;
    if (bytes == 0) {
        size_t least = (size_t)64 << 20, most = tess_os_memory_bytes() / 16;
        bytes = 4 * tess_bench_cache_bytes(3);
        bytes = bytes < least ? least : bytes;
        bytes = bytes < most ? bytes : most;
    }
    bytes = (bytes / (GRAIN * sizeof(float)) + 1) * GRAIN * sizeof(float);
    x->n = (int64_t)(bytes / sizeof(float));
    TESS_TRY(tess_threads_create(mem, n_threads, &x->threads));
    TESS_TRY(tess_scope_alloc(tess_scope_of(x), TESS_POOL_MISC, bytes, 1, "bench array", (void **)&x->a));
    TESS_TRY(tess_scope_alloc(tess_scope_of(x), TESS_POOL_MISC, bytes, 1, "bench array", (void **)&x->b));
    TESS_TRY(tess_scope_alloc(tess_scope_of(x), TESS_POOL_MISC, bytes, 1, "bench array", (void **)&x->c));
    tess_threads_run(x->threads, fill, x, x->n, GRAIN);
    *arrays = TESS_GIVE(x);
    return TESS_OK;
}

/* ---- Memory ---- */

static const int bytes_of[TESS_BENCH_TRAFFIC_COUNT] = {[TESS_BENCH_READ] = 4, /* bytes per element */
                                                       [TESS_BENCH_COPY] = 8,
                                                       [TESS_BENCH_TRIAD] = 12,
                                                       [TESS_BENCH_COPY_CACHED] = 8,
                                                       [TESS_BENCH_TRIAD_CACHED] = 12};

typedef struct pass {
    tess_bench_loop *loop;
    const tess_bench_arrays *arrays;
    int64_t n, rounds; /* elements of a part that fits into the cache, and rounds over it */
} pass;

static void run_pass(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const pass *p = context;
    p->loop(p->arrays->a + begin, p->arrays->b + begin, p->arrays->c + begin, end - begin);
}

double tess_bench_traffic_rate(tess_bench_arrays *x, tess_bench_traffic traffic)
{
    pass p = {.loop = loop_for(traffic), .arrays = x};
    double begin = tess_os_now_s();
    tess_threads_run(x->threads, run_pass, &p, x->n, GRAIN);
    return (double)x->n * bytes_of[traffic] / (tess_os_now_s() - begin);
}

/* ---- Caches ---- */

static void reread(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const pass *p = context;
    for (int64_t part = begin; part < end; part++)
        for (int64_t round = 0; round < p->rounds; round++)
            p->loop(p->arrays->a + part * p->n, NULL, p->arrays->c + part * GRAIN, p->n);
}

double tess_bench_cache_read_rate(tess_bench_arrays *x, size_t bytes, double seconds)
{
    int n_threads = tess_threads_count(x->threads);
    int64_t n = (int64_t)(bytes / sizeof(float)) / GRAIN * GRAIN;
    n = n < GRAIN ? GRAIN : n;
    n = n * n_threads <= x->n ? n : x->n / n_threads / GRAIN * GRAIN;
    pass p = {loop_for(TESS_BENCH_READ), x, n, 1};
    for (;;) { /* the first rounds fill the cache, and show how many rounds take the required time */
        double begin = tess_os_now_s();
        tess_threads_run(x->threads, reread, &p, n_threads, 1);
        double taken = tess_os_now_s() - begin;
        if (taken >= seconds)
            return (double)n * sizeof(float) * (double)p.rounds * n_threads / taken;
        p.rounds *= 2;
    }
}

/* ---- Pages ---- */

static void touch(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    volatile char *pages = context;
    for (int64_t i = begin; i < end; i++)
        pages[i * PAGE] = 1;
}

double tess_bench_touch_rate(tess_threads *threads, size_t bytes, bool huge)
{
    size_t n = bytes / HUGE * HUGE;
    char *mapped = mmap(NULL, n + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
        return 0;
    char *pages = mapped + HUGE - (size_t)mapped % HUGE;
    madvise(pages, n, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    double begin = tess_os_now_s();
    tess_threads_run(threads, touch, pages, (int64_t)(n / PAGE), HUGE / PAGE);
    double seconds = tess_os_now_s() - begin;
    munmap(mapped, n + HUGE);
    return (double)n / seconds;
}
