#include "device/peak.h"

#include <string.h>

#include "base/os/os.h"
#include "device/cpu/cpu_peak.h"

typedef struct measurement {
    double (*loop)(int64_t rounds);
    int64_t rounds;
} measurement;

static double scalar_loop(int64_t rounds)
{
    float sums[4] = {0, 1, 2, 3};
    for (int64_t r = 0; r < rounds; r++)
        for (int i = 0; i < 4; i++) {
            sums[i] = sums[i] * 0.5f + 1e-3f;
            __asm__ volatile("" : "+m"(sums[i]));
        }
    return (double)rounds * 4 * 2;
}

static void run(void *context, int64_t begin, int64_t end, int worker)
{
    measurement *m = context;
    (void)worker;
    for (int64_t i = begin; i < end; i++)
        (void)m->loop(m->rounds);
}

#if defined(__x86_64__)
static const struct {
    const char *table;
    double (*f32)(int64_t rounds), (*bf16)(int64_t rounds);
} loops[] = {
    {"avx2", tess_peak_loop_avx2, tess_peak_loop_avx2},
    {"avx512", tess_peak_loop_avx512, tess_peak_loop_avx512},
    {"avx512_bf16", tess_peak_loop_avx512, tess_peak_loop_avx512_bf16},
    {"amx", tess_peak_loop_avx512, tess_peak_loop_amx},
};
#endif

double tess_peak_flops(tess_stream *stream, tess_dtype dtype)
{
    measurement m = {.loop = scalar_loop, .rounds = 20000};
#if defined(__x86_64__)
    for (size_t i = 0; i < sizeof(loops) / sizeof(loops[0]); i++)
        if (strcmp(stream->kernels->name, loops[i].table) == 0)
            m.loop = dtype == TESS_BF16 ? loops[i].bf16 : loops[i].f32;
#endif
    int n_threads = tess_threads_count(stream->threads);
    double flops = m.loop(1) * (double)m.rounds * n_threads, best = 0;
    for (int attempt = 0; attempt < 5; attempt++) {
        double begin = tess_os_now_s();
        tess_threads_run(stream->threads, run, &m, n_threads, 1);
        double rate = flops / (tess_os_now_s() - begin);
        best = rate > best ? rate : best;
    }
    return best;
}
