/* Activations at the end of a product, one row of a tile at a time. The bits are those of act_forward, glu_forward,
 * act_backward and glu_backward. */
#include "device/cpu/vec_avx512.h"
#include "device/vmath.h"
#include "device/activation.h"
#include "device/cpu/gemm_amx_impl.h"

typedef struct fused_row {
    __m512 half[2];
} fused_row;

static inline fused_row unpack(__m512i x)
{
    return (fused_row){{tess_gemm_widen(_mm512_castsi512_si256(x)), tess_gemm_widen(_mm512_extracti64x4_epi64(x, 1))}};
}

static inline fused_row get(const gemm_chores *w, const void *matrix)
{
    return unpack(_mm512_maskz_loadu_epi16(w->columns, (const uint16_t *)matrix + w->at));
}

/* Rounds C as products do, which flush subnormal numbers to zero. */
static inline __m512i round_product(fused_row x)
{
    return (__m512i)_mm512_cvtne2ps_pbh(x.half[1], x.half[0]);
}

/* Rounds as activations do, which keep subnormal numbers. */
static inline __m512i round_row(fused_row x)
{
    static const _Alignas(64) uint16_t upper[32] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31,
                                                    33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
    return _mm512_permutex2var_epi16(v_bf16_bits(x.half[0]), _mm512_load_si512(upper), v_bf16_bits(x.half[1]));
}

static inline void put(const gemm_chores *w, void *matrix, __m512i x)
{
    uint16_t *to = (uint16_t *)matrix + w->at;
    if (w->streamed)
        _mm512_stream_si512((void *)to, x);
    else
        _mm512_mask_storeu_epi16(to, w->columns, x);
}

static inline void forward(const gemm_chores *w, fused_row c, tess_activation act)
{
    const tess_gemm_fused *f = w->fused;
    __m512i kept = round_product(c);
    fused_row x = unpack(kept), gate = f->gate != NULL ? get(w, f->gate) : x, y;
    for (int i = 0; i < 2; i++) {
        y.half[i] = v_activate(gate.half[i], act);
        if (f->gate != NULL)
            y.half[i] = _mm512_mul_ps(y.half[i], x.half[i]);
    }
    put(w, f->g.c, kept);
    put(w, f->y, round_row(y));
}

static inline void backward(const gemm_chores *w, fused_row c, tess_activation act)
{
    const tess_gemm_fused *f = w->fused;
    fused_row d = unpack(round_product(c)), up = get(w, f->up), y, slope, dup;
    fused_row gate = f->gate != NULL ? get(w, f->gate) : up;
    for (int i = 0; i < 2; i++)
        y.half[i] = v_activate_with_slope(gate.half[i], act, &slope.half[i]);
    if (f->gate != NULL) {
        for (int i = 0; i < 2; i++) {
            dup.half[i] = _mm512_mul_ps(d.half[i], y.half[i]);
            d.half[i] = _mm512_mul_ps(d.half[i], up.half[i]);
            y.half[i] = _mm512_mul_ps(y.half[i], up.half[i]);
        }
        put(w, f->up, round_row(dup));
    }
    for (int i = 0; i < 2; i++)
        d.half[i] = _mm512_mul_ps(d.half[i], slope.half[i]);
    put(w, f->gate != NULL ? f->gate : f->up, round_row(d));
    if (f->y != NULL)
        put(w, f->y, round_row(y));
}

static inline void write(const gemm_chores *w, fused_row c, tess_activation act)
{
    if (w->fused->then == TESS_THEN_ACT)
        forward(w, c, act);
    else
        backward(w, c, act);
}

void tess_gemm_fused_row_amx(const gemm_chores *w, __m512 low, __m512 high)
{
    fused_row c = {{low, high}};
    if (w->fused->act == TESS_ACT_SILU)
        write(w, c, TESS_ACT_SILU);
    else if (w->fused->act == TESS_ACT_GELU_TANH)
        write(w, c, TESS_ACT_GELU_TANH);
    else
        write(w, c, TESS_ACT_GELU_ERF);
}
