/* bf16 products with VDPBF16PS. K is processed in pairs, in ascending order. The instruction adds the odd product of a
 * pair first, then the even one, each fused and rounded to nearest; denormals count as zero. The floor is the
 * instruction's rate: 128 flops per cycle on AMD's cores. Intel's cores with AMX do only 32, half of their float FMAs.
 * Where such a core may not use its tiles, the AVX-512 table is faster and is chosen (tess_cpu_gains). */
enum { K_STEP = 2 };

#include "device/cpu/gemm_avx512_impl.h"

static inline __m512i load_packed(const void *x, int64_t i, int64_t left, TESS_UNUSED tess_dtype dtype)
{
    __mmask32 mask = left >= 32 ? 0xffffffff : (__mmask32)((1u << left) - 1);
    return _mm512_maskz_loadu_epi16(mask, (const uint16_t *)x + i);
}

static inline __m512i load_columns(const void *x, int64_t i, int64_t ld, int64_t left, __mmask16 mask,
                                   TESS_UNUSED tess_dtype dtype)
{
    const uint16_t *even = (const uint16_t *)x + i;
    __m512i odd = left > 1 ? load_bf16(even + ld, mask) : _mm512_setzero_si512();
    return _mm512_or_si512(load_bf16(even, mask), _mm512_slli_epi32(odd, 16));
}

static inline __m512 add_products(__m512 sum, __m512 x, __m512 y)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)x, (__m512bh)y);
}

#define FEW_STEP K_STEP
#define FEW_LANES 16
#define FEW_SUMS 24
#define FEW_TILE_ROWS 12
#define FEW_TURNED_VECTORS 4
#define FEW_TURNED_BF16_MOST FEW_TURNED_MOST
#include "device/cpu/gemm_few_rows_vec.h"

static tess_status gemm_avx512_bf16(tess_stream *s, const tess_gemm *g)
{
    if (g->ab_dtype == TESS_F32)
        return tess_gemm_avx512(s, g);
    if (takes_few_rows(g))
        return gemm_few_rows(s, g);
    return tess_gemm_vector(s, g, &engine);
}

static tess_status gemm_fused_avx512_bf16(tess_stream *s, const tess_gemm_fused *f)
{
    return f->g.ab_dtype == TESS_F32 ? tess_gemm_fused_avx512(s, f) : gemm_fused(s, f);
}

static tess_status gemm_grouped_avx512_bf16(tess_stream *s, const tess_gemm_grouped *x)
{
    return x->ab_dtype == TESS_F32 ? tess_gemm_grouped_avx512(s, x) : gemm_grouped(s, x);
}

void tess_kernels_avx512_bf16_gemm(tess_kernels *k)
{
    k->gemm = gemm_avx512_bf16;
    k->gemm_fused = gemm_fused_avx512_bf16;
    k->gemm_grouped = gemm_grouped_avx512_bf16;
    k->peak_bf16 = peak_loop;
}
