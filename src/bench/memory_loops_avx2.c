/* Loops that read, write and copy memory as fast as AVX2 can. They give the limit with which other benches are
 * compared. */
#include <immintrin.h>

#include "bench/memory_loops.h"

static const float SCALE = 3;

enum { STREAMS = 8, AHEAD = 512 };

/* Reads eight streams at once, each prefetched 2 KiB ahead. One stream alone leaves half of a core's outstanding
 * misses unused (8 instead of 17 GB/s on a Sapphire Rapids core). Separately named sums stay in registers. */
static void read_all(const float *a, TESS_UNUSED const float *b, float *c, int64_t n)
{
    int64_t part = n / STREAMS;
    __m256 sums[STREAMS];
#pragma GCC unroll 8
    for (int k = 0; k < STREAMS; k++)
        sums[k] = _mm256_setzero_ps();
    for (int64_t i = 0; i < part; i += 16)
#pragma GCC unroll 8
        for (int k = 0; k < STREAMS; k++) {
            const float *x = a + k * part + i;
            _mm_prefetch((const char *)(x + AHEAD), _MM_HINT_T0);
            sums[k] = _mm256_add_ps(sums[k], _mm256_load_ps(x));
            sums[k] = _mm256_add_ps(sums[k], _mm256_load_ps(x + 8));
        }
#pragma GCC unroll 8
    for (int k = 1; k < STREAMS; k++)
        sums[0] = _mm256_add_ps(sums[0], sums[k]);
    c[0] = _mm256_cvtss_f32(sums[0]);
}

static void fetch_ahead(const float *x)
{
    _mm_prefetch((const char *)(x + AHEAD), _MM_HINT_T0);
}

static __m256 triad_8(const float *a, const float *b)
{
    return _mm256_fmadd_ps(_mm256_set1_ps(SCALE), _mm256_load_ps(b), _mm256_load_ps(a));
}

/* Copies two streams at once, which is a fifth faster than one. More streams share too few write-combining buffers. */
static void copy(const float *a, TESS_UNUSED const float *b, float *c, int64_t n)
{
    for (int64_t i = 0; i < n / 2; i += 16)
        for (int64_t x = i; x < n; x += n / 2) {
            fetch_ahead(a + x);
            _mm256_stream_ps(c + x, _mm256_load_ps(a + x));
            _mm256_stream_ps(c + x + 8, _mm256_load_ps(a + x + 8));
        }
    _mm_sfence();
}

static void triad(const float *a, const float *b, float *c, int64_t n)
{
    for (int64_t i = 0; i < n / 2; i += 16)
        for (int64_t x = i; x < n; x += n / 2) {
            fetch_ahead(a + x);
            fetch_ahead(b + x);
            _mm256_stream_ps(c + x, triad_8(a + x, b + x));
            _mm256_stream_ps(c + x + 8, triad_8(a + x + 8, b + x + 8));
        }
    _mm_sfence();
}

static void copy_cached(const float *a, TESS_UNUSED const float *b, float *c, int64_t n)
{
    for (int64_t i = 0; i < n; i += 8)
        _mm256_store_ps(c + i, _mm256_load_ps(a + i));
}

static void triad_cached(const float *a, const float *b, float *c, int64_t n)
{
    for (int64_t i = 0; i < n; i += 8)
        _mm256_store_ps(c + i, triad_8(a + i, b + i));
}

tess_bench_loop *const tess_bench_loops_avx2[TESS_BENCH_TRAFFIC_COUNT] = {[TESS_BENCH_READ] = read_all,
                                                                          [TESS_BENCH_COPY] = copy,
                                                                          [TESS_BENCH_TRIAD] = triad,
                                                                          [TESS_BENCH_COPY_CACHED] = copy_cached,
                                                                          [TESS_BENCH_TRIAD_CACHED] = triad_cached};
