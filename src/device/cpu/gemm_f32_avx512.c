/* float32 FMA products; bf16 is widened while it is packed. Both give the same bits as ref/ref_gemm.c. Floor: 64 flops
 * per cycle and core. */
enum { K_STEP = 1 };

#include "device/cpu/gemm_avx512_impl.h"

static inline __m512i load_packed(const void *x, int64_t i, int64_t left, tess_dtype dtype)
{
    return _mm512_castps_si512(load(x, i, first(left), dtype));
}

static inline __m512i load_columns(const void *x, int64_t i, TESS_UNUSED int64_t ld, TESS_UNUSED int64_t left,
                                   __mmask16 mask, tess_dtype dtype)
{
    return _mm512_castps_si512(load(x, i, mask, dtype));
}

static inline __m512 add_products(__m512 sum, __m512 x, __m512 y)
{
    return _mm512_fmadd_ps(x, y, sum);
}

#define FEW_STEP K_STEP
#define FEW_LANES 16
#define FEW_SUMS 24
#define FEW_TILE_ROWS 12
#define FEW_TURNED_VECTORS 4
#define FEW_TURNED_BF16_MOST FEW_TURNED_MOST
#include "device/cpu/gemm_few_rows_vec.h"

tess_status tess_gemm_avx512(tess_stream *s, const tess_gemm *g)
{
    if (takes_few_rows(g))
        return gemm_few_rows(s, g);
    return tess_gemm_vector(s, g, &engine);
}

tess_status tess_gemm_fused_avx512(tess_stream *s, const tess_gemm_fused *f)
{
    return gemm_fused(s, f);
}

tess_status tess_gemm_grouped_avx512(tess_stream *s, const tess_gemm_grouped *x)
{
    return gemm_grouped(s, x);
}

void tess_kernels_avx512_gemm(tess_kernels *k)
{
    k->gemm = tess_gemm_avx512;
    k->gemm_fused = tess_gemm_fused_avx512;
    k->gemm_grouped = gemm_grouped;
    k->peak_f32 = peak_loop;
    k->peak_bf16 = peak_loop;
}
