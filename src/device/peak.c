#include "device/peak.h"

#include "base/os/os.h"
#include "device/stream_impl.h"

typedef struct measurement {
    double (*loop)(int64_t rounds);
    int64_t rounds;
} measurement;

static void run(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    measurement *m = context;
    for (int64_t i = begin; i < end; i++)
        (void)m->loop(m->rounds);
}

double tess_peak_flops(tess_stream *stream, tess_dtype dtype)
{
    const tess_kernels *k = stream->kernels;
    measurement m = {.loop = dtype == TESS_BF16 ? k->peak_bf16 : k->peak_f32, .rounds = 20000};
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
