#include <immintrin.h>

#include "bench/memory_loops.h"

static const float SCALE = 3;

/* Eight chains: two additions a cycle of latency four keep up with two loads a cycle. */
static float read_all(const float *a, int64_t n)
{
    __m256 s0 = _mm256_setzero_ps(), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
    for (int64_t i = 0; i < n; i += 64) {
        s0 = _mm256_add_ps(s0, _mm256_load_ps(a + i));
        s1 = _mm256_add_ps(s1, _mm256_load_ps(a + i + 8));
        s2 = _mm256_add_ps(s2, _mm256_load_ps(a + i + 16));
        s3 = _mm256_add_ps(s3, _mm256_load_ps(a + i + 24));
        s4 = _mm256_add_ps(s4, _mm256_load_ps(a + i + 32));
        s5 = _mm256_add_ps(s5, _mm256_load_ps(a + i + 40));
        s6 = _mm256_add_ps(s6, _mm256_load_ps(a + i + 48));
        s7 = _mm256_add_ps(s7, _mm256_load_ps(a + i + 56));
    }
    __m256 low = _mm256_add_ps(_mm256_add_ps(s0, s1), _mm256_add_ps(s2, s3));
    __m256 high = _mm256_add_ps(_mm256_add_ps(s4, s5), _mm256_add_ps(s6, s7));
    return _mm256_cvtss_f32(_mm256_add_ps(low, high));
}

static void copy(const float *a, float *c, int64_t n)
{
    for (int64_t i = 0; i < n; i += 16) {
        _mm256_stream_ps(c + i, _mm256_load_ps(a + i));
        _mm256_stream_ps(c + i + 8, _mm256_load_ps(a + i + 8));
    }
    _mm_sfence();
}

static __m256 triad_8(const float *a, const float *b)
{
    return _mm256_fmadd_ps(_mm256_set1_ps(SCALE), _mm256_load_ps(b), _mm256_load_ps(a));
}

static void triad(const float *a, const float *b, float *c, int64_t n)
{
    for (int64_t i = 0; i < n; i += 16) {
        _mm256_stream_ps(c + i, triad_8(a + i, b + i));
        _mm256_stream_ps(c + i + 8, triad_8(a + i + 8, b + i + 8));
    }
    _mm_sfence();
}

static void copy_cached(const float *a, float *c, int64_t n)
{
    for (int64_t i = 0; i < n; i += 8)
        _mm256_store_ps(c + i, _mm256_load_ps(a + i));
}

static void triad_cached(const float *a, const float *b, float *c, int64_t n)
{
    for (int64_t i = 0; i < n; i += 8)
        _mm256_store_ps(c + i, triad_8(a + i, b + i));
}

const tess_bench_memory_loops tess_bench_memory_loops_avx2 = {read_all, copy, triad, copy_cached, triad_cached};
