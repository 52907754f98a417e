/* Measures the speed of the cores while all of them work. Rates are per second of core time, so that ranks that
 * share a core can be compared. The share of its core that a thread got shows whether other processes use the core. */
#include <string.h>

#include "base/os/machine.h"
#include "base/os/os.h"
#include "device/stream.h"
#include "doctor/probe/ranks_impl.h"

enum { GEMM_SIZE = 192, COPY_MOST = 16 << 20, COPY_LEAST = 2 << 20, COPY_ALL = 128 << 20 };
#define ALL_ROUNDS_S 0.6 /* seconds for each kind of work, over all cores */
#define ROUND_MOST_S 0.3
#define ROUND_LEAST_S 0.02

typedef struct work {
    tess_stream *stream;
    void *a, *b, *c;
    size_t bytes; /* size of a and c, the buffers that are copied */
    double seconds;
    bool copies;
    probe_speed speed;
    tess_status status;
} work;

static tess_status do_once(work *w, double *done)
{
    if (w->copies) {
        memcpy(w->c, w->a, w->bytes);
        *done += 2.0 * (double)w->bytes;
        return TESS_OK;
    }
    const tess_gemm gemm = {.m = GEMM_SIZE,
                            .n = GEMM_SIZE,
                            .k = GEMM_SIZE,
                            .a = w->a,
                            .lda = GEMM_SIZE,
                            .b = w->b,
                            .ldb = GEMM_SIZE,
                            .c = w->c,
                            .ldc = GEMM_SIZE,
                            .ab_dtype = TESS_BF16,
                            .c_dtype = TESS_F32};
    *done += 2.0 * GEMM_SIZE * GEMM_SIZE * GEMM_SIZE;
    return tess_stream_kernels(w->stream)->gemm(w->stream, &gemm);
}

/* Runs the work on the thread that is bound to the core. */
static void run(void *context)
{
    work *w = context;
    double warm_up = 0, done = 0;
    w->status = do_once(w, &warm_up);
    double wall = tess_os_now_s(), cpu = tess_os_thread_cpu_s(), until = wall + w->seconds;
    while (w->status == TESS_OK && tess_os_now_s() < until)
        w->status = do_once(w, &done);
    cpu = tess_os_thread_cpu_s() - cpu;
    wall = tess_os_now_s() - wall;
    w->speed = (probe_speed){tess_os_core_now(), (float)(done / (cpu > 0 ? cpu : wall)), (float)(cpu / wall)};
}

static tess_status measure(tess_team *team, work *w, int local_index, int n_local, int n_rounds, probe_speed *slowest)
{
    w->seconds = ALL_ROUNDS_S / n_rounds;
    w->seconds = w->seconds > ROUND_MOST_S ? ROUND_MOST_S : w->seconds < ROUND_LEAST_S ? ROUND_LEAST_S : w->seconds;
    *slowest = (probe_speed){.core = -1};
    for (int round = 0; round < n_rounds; round++) {
        TESS_TRY(tess_barrier(team, NULL));
        TESS_TRY(tess_os_on_core(local_index + round * n_local, run, w));
        TESS_TRY(w->status);
        if (slowest->core < 0 || w->speed.rate * w->speed.share < slowest->rate * slowest->share)
            *slowest = w->speed;
    }
    return TESS_OK;
}

tess_status probe_measure_speed(tess_team *team, int local_index, int n_local, probe_rank *mine)
{
    tess_mem *mem = tess_runtime_mem(tess_team_runtime(team));
    int cores = tess_os_affinity_cores();
    size_t bytes = COPY_ALL / (size_t)n_local / 64 * 64;
    work w = {.bytes = bytes > COPY_MOST ? COPY_MOST : bytes < COPY_LEAST ? COPY_LEAST : bytes};
    mine->cores_are_shared = n_local > cores;
    /* All ranks run the same number of rounds: as many as the host with most cores per rank needs. */
    int32_t n_rounds = mine->cores_are_shared ? 1 : (cores + n_local - 1) / n_local;
    TESS_TRY(tess_all_reduce(team, &n_rounds, &n_rounds, 1, TESS_I32, TESS_MAX, NULL));
    TESS_TRY(tess_stream_create(mem, 1, NULL, &w.stream));
    tess_status status = tess_mem_alloc(mem, TESS_POOL_MISC, 3 * w.bytes, "probe", &w.a);
    if (status == TESS_OK) {
        w.b = (char *)w.a + w.bytes;
        w.c = (char *)w.b + w.bytes;
        status = measure(team, &w, local_index, n_local, n_rounds, &mine->gemm);
    }
    w.copies = true;
    if (status == TESS_OK)
        status = measure(team, &w, local_index, n_local, n_rounds, &mine->copy);
    tess_mem_free(mem, w.a);
    tess_stream_destroy(&w.stream);
    return status;
}
