/* Rows that compute each element from a few others. Their speed is limited by memory. Neighbouring threads take
 * neighbouring elements, so that a warp reads and writes whole sectors. */
#include <math.h>

#include "device/cuda/cuda_rows.h"
#include "device/cuda/cuda_types.h"

#include "device/ref/vec_ref.h"
#include "device/vmath.h"
#include "device/activation.h"
#include "device/adamw.h"

enum { THREADS = 256 };

/* ---- Activations ---- */
template <typename E> static __global__ void act_forward_kernel(const E *x, E *y, int64_t n, tess_activation act)
{
    TESS_CUDA_EACH(i, n)
    cuda_store(&y[i], v_activate(cuda_load(&x[i]), act));
}

template <typename E>
static tess_status launch_act_forward(tess_stream *s, const void *x, void *y, int64_t n, tess_activation act)
{
    return TESS_CUDA_LAUNCH(act_forward_kernel, tess_cuda_blocks(n, THREADS), THREADS, 0, s, (const E *)x, (E *)y, n,
                            act);
}

static tess_status act_forward(tess_stream *s, const void *x, void *y, int64_t n, tess_activation act, tess_dtype dtype)
{
    TESS_TRY(tess_check_dtype("activation", dtype));
    return n > 0 ? TESS_CUDA_OF(dtype, launch_act_forward, s, x, y, n, act) : TESS_OK;
}

template <typename E>
static __global__ void act_backward_kernel(const E *x, const E *dy, E *dx, int64_t n, tess_activation act)
{
    TESS_CUDA_EACH(i, n)
    {
        float slope;
        v_activate_with_slope(cuda_load(&x[i]), act, &slope);
        cuda_store(&dx[i], cuda_load(&dy[i]) * slope);
    }
}

template <typename E>
static tess_status launch_act_backward(tess_stream *s, const void *x, const void *dy, void *dx, int64_t n,
                                       tess_activation act)
{
    return TESS_CUDA_LAUNCH(act_backward_kernel, tess_cuda_blocks(n, THREADS), THREADS, 0, s, (const E *)x,
                            (const E *)dy, (E *)dx, n, act);
}

static tess_status act_backward(tess_stream *s, const void *x, const void *dy, void *dx, int64_t n, tess_activation act,
                                tess_dtype dtype)
{
    TESS_TRY(tess_check_dtype("activation backward", dtype));
    return n > 0 ? TESS_CUDA_OF(dtype, launch_act_backward, s, x, dy, dx, n, act) : TESS_OK;
}

/* ---- Gated activations: element i of (T, F) is in row i / F of the strided arguments ---- */
template <typename E>
static __global__ void glu_forward_kernel(const E *gate, const E *up, int64_t stride, E *y, int64_t T, int64_t F,
                                          tess_activation act)
{
    TESS_CUDA_EACH(i, T * F)
    {
        cuda_division row = cuda_divide(i, F);
        int64_t at = row.quotient * stride + row.rest;
        cuda_store(&y[i], v_activate(cuda_load(&gate[at]), act) * cuda_load(&up[at]));
    }
}

template <typename E>
static tess_status launch_glu_forward(tess_stream *s, const void *gate, const void *up, int64_t stride, void *y,
                                      int64_t T, int64_t F, tess_activation act)
{
    return TESS_CUDA_LAUNCH(glu_forward_kernel, tess_cuda_blocks(T * F, THREADS), THREADS, 0, s, (const E *)gate,
                            (const E *)up, stride, (E *)y, T, F, act);
}

static tess_status glu_forward(tess_stream *s, const void *gate, const void *up, int64_t stride, void *y, int64_t T,
                               int64_t F, tess_activation act, tess_dtype dtype)
{
    TESS_TRY(tess_check_dtype("glu", dtype));
    return T * F > 0 ? TESS_CUDA_OF(dtype, launch_glu_forward, s, gate, up, stride, y, T, F, act) : TESS_OK;
}

template <typename E> struct glu_gradient {
    const E *gate, *up, *dy;
    E *dgate, *dup;
    int64_t stride, dstride, T, F;
    tess_activation act;
};

template <typename E> static __global__ void glu_backward_kernel(glu_gradient<E> g)
{
    TESS_CUDA_EACH(i, g.T * g.F)
    {
        cuda_division row = cuda_divide(i, g.F);
        int64_t at = row.quotient * g.stride + row.rest, to = row.quotient * g.dstride + row.rest;
        float d = cuda_load(&g.dy[i]), u = cuda_load(&g.up[at]), slope;
        float activated = v_activate_with_slope(cuda_load(&g.gate[at]), g.act, &slope);
        cuda_store(&g.dgate[to], d * u * slope);
        cuda_store(&g.dup[to], d * activated);
    }
}

template <typename E>
static tess_status launch_glu_backward(tess_stream *s, const void *gate, const void *up, int64_t stride, const void *dy,
                                       void *dgate, void *dup, int64_t dstride, int64_t T, int64_t F,
                                       tess_activation act)
{
    glu_gradient<E> g = {
        (const E *)gate, (const E *)up, (const E *)dy, (E *)dgate, (E *)dup, stride, dstride, T, F, act};
    return TESS_CUDA_LAUNCH(glu_backward_kernel, tess_cuda_blocks(T * F, THREADS), THREADS, 0, s, g);
}

static tess_status glu_backward(tess_stream *s, const void *gate, const void *up, int64_t stride, const void *dy,
                                void *dgate, void *dup, int64_t dstride, int64_t T, int64_t F, tess_activation act,
                                tess_dtype dtype)
{
    TESS_TRY(tess_check_dtype("glu backward", dtype));
    return T * F > 0 ? TESS_CUDA_OF(dtype, launch_glu_backward, s, gate, up, stride, dy, dgate, dup, dstride, T, F, act)
                     : TESS_OK;
}

/* ---- Rotary position embedding: each thread rotates one pair ---- */
template <typename E> struct rotation {
    E *x;
    int64_t stride;
    const int32_t *pos;
    const float *cos_table, *sin_table;
    int64_t T, n_heads, D, half;
    bool inverse;
};

template <typename E> static __global__ void rope_kernel(rotation<E> r)
{
    TESS_CUDA_EACH(i, r.T * r.n_heads * r.half)
    {
        cuda_division by_pair = cuda_divide(i, r.half), by_head = cuda_divide(by_pair.quotient, r.n_heads);
        int64_t pair = by_pair.rest, head = by_head.rest, t = by_head.quotient;
        int64_t angle = r.pos[t] * r.half + pair;
        E *x = r.x + t * r.stride + head * r.D + pair, *y = x + r.half;
        float a = cuda_load(x), b = cuda_load(y), c = r.cos_table[angle];
        float d = r.inverse ? -r.sin_table[angle] : r.sin_table[angle];
        cuda_store(x, a * c - b * d);
        cuda_store(y, b * c + a * d);
    }
}

template <typename E>
static tess_status launch_rope(tess_stream *s, void *x, int64_t stride, const int32_t *pos, const float *cos_table,
                               const float *sin_table, int64_t T, int64_t n_heads, int64_t D, int64_t R, bool inverse)
{
    rotation<E> r = {(E *)x, stride, pos, cos_table, sin_table, T, n_heads, D, R / 2, inverse};
    return TESS_CUDA_LAUNCH(rope_kernel, tess_cuda_blocks(T * n_heads * r.half, THREADS), THREADS, 0, s, r);
}

static tess_status rope(tess_stream *s, void *x, int64_t stride, const int32_t *pos, const float *cos_table,
                        const float *sin_table, int64_t T, int64_t n_heads, int64_t D, int64_t R, bool inverse,
                        tess_dtype dtype)
{
    TESS_TRY(tess_check_dtype("rope", dtype));
    if (T * n_heads * (R / 2) == 0)
        return TESS_OK;
    return TESS_CUDA_OF(dtype, launch_rope, s, x, stride, pos, cos_table, sin_table, T, n_heads, D, R, inverse);
}

/* ---- Sum of two ---- */
template <typename E> static __global__ void add_kernel(const E *a, const E *b, E *y, int64_t n)
{
    TESS_CUDA_EACH(i, n)
    cuda_store(&y[i], cuda_load(&a[i]) + cuda_load(&b[i]));
}

template <typename E> static tess_status launch_add(tess_stream *s, const void *a, const void *b, void *y, int64_t n)
{
    return TESS_CUDA_LAUNCH(add_kernel, tess_cuda_blocks(n, THREADS), THREADS, 0, s, (const E *)a, (const E *)b, (E *)y,
                            n);
}

static tess_status add(tess_stream *s, const void *a, const void *b, void *y, int64_t n, tess_dtype dtype)
{
    TESS_TRY(tess_check_dtype("add", dtype));
    return n > 0 ? TESS_CUDA_OF(dtype, launch_add, s, a, b, y, n) : TESS_OK;
}

/* ---- Multiples ---- */
template <typename E> static __global__ void scale_kernel(const E *x, float factor, E *y, int64_t n)
{
    TESS_CUDA_EACH(i, n)
    cuda_store(&y[i], factor * cuda_load(&x[i]));
}

template <typename E> static tess_status launch_scale(tess_stream *s, const void *x, float factor, void *y, int64_t n)
{
    return TESS_CUDA_LAUNCH(scale_kernel, tess_cuda_blocks(n, THREADS), THREADS, 0, s, (const E *)x, factor, (E *)y, n);
}

static tess_status scale(tess_stream *s, const void *x, float factor, void *y, int64_t n, tess_dtype dtype)
{
    TESS_TRY(tess_check_dtype("scale", dtype));
    return n > 0 ? TESS_CUDA_OF(dtype, launch_scale, s, x, factor, y, n) : TESS_OK;
}

/* ---- fp8 ---- */
typedef struct fp8_rows {
    int64_t stride, C, blocks; /* blocks: number of blocks of a row */
    tess_fp8 format;
} fp8_rows;

/* Each thread rounds one block. */
template <typename E> static __global__ void round_fp8_kernel(const E *x, E *y, int64_t n, fp8_rows rows)
{
    TESS_CUDA_EACH(i, n)
    {
        int64_t row = i / rows.blocks, begin = i % rows.blocks * TESS_FP8_BLOCK;
        int64_t end = begin + TESS_FP8_BLOCK < rows.C ? begin + TESS_FP8_BLOCK : rows.C;
        float most = 0, none = 0; /* none: NaN if an element is not finite */
        for (int64_t c = begin; c < end; c++) {
            float value = cuda_load(&x[row * rows.stride + c]);
            most = fmaxf(fabsf(value), most);
            none += value - value;
        }
        float scale = tess_fp8_scale(most, rows.format);
        for (int64_t c = begin; c < end; c++) {
            float value = cuda_load(&x[row * rows.stride + c]);
            cuda_store(&y[row * rows.C + c], none == 0 ? tess_round_fp8(value, scale, rows.format) : value);
        }
    }
}

template <typename E>
static tess_status launch_round_fp8(tess_stream *s, const void *x, void *y, int64_t n_rows, fp8_rows rows)
{
    int64_t n = n_rows * rows.blocks;
    return TESS_CUDA_LAUNCH(round_fp8_kernel, tess_cuda_blocks(n, THREADS), THREADS, 0, s, (const E *)x, (E *)y, n,
                            rows);
}

static tess_status round_fp8(tess_stream *s, const void *x, int64_t stride, void *y, int64_t n_rows, int64_t C,
                             tess_fp8 format, tess_dtype dtype)
{
    TESS_TRY(tess_check_dtype("round_fp8", dtype));
    fp8_rows rows = {stride, C, (C + TESS_FP8_BLOCK - 1) / TESS_FP8_BLOCK, format};
    return n_rows * C > 0 ? TESS_CUDA_OF(dtype, launch_round_fp8, s, x, y, n_rows, rows) : TESS_OK;
}

/* ---- Other dtypes ---- */
template <typename N> static __global__ void copy_kernel(const N *x, N *y, int64_t n)
{
    TESS_CUDA_EACH(i, n)
    y[i] = x[i];
}

/* The bits of a NaN are kept. */
template <typename N> static tess_status launch_copy(tess_stream *s, const void *x, void *y, int64_t n)
{
    return TESS_CUDA_LAUNCH(copy_kernel, tess_cuda_blocks(n, THREADS), THREADS, 0, s, (const N *)x, (N *)y, n);
}

template <typename From, typename To> static __global__ void convert_kernel(const From *x, To *y, int64_t n)
{
    TESS_CUDA_EACH(i, n)
    cuda_store(&y[i], cuda_load(&x[i]));
}

template <typename From, typename To>
static tess_status launch_convert(tess_stream *s, const void *x, void *y, int64_t n)
{
    return TESS_CUDA_LAUNCH(convert_kernel, tess_cuda_blocks(n, THREADS), THREADS, 0, s, (const From *)x, (To *)y, n);
}

template <typename From>
static tess_status convert_from(tess_stream *s, const void *x, void *y, tess_dtype to, int64_t n)
{
    return to == TESS_F32    ? launch_convert<From, float>(s, x, y, n)
           : to == TESS_BF16 ? launch_convert<From, cuda_bf16>(s, x, y, n)
                             : launch_convert<From, cuda_f16>(s, x, y, n);
}

static tess_status convert(tess_stream *s, const void *x, tess_dtype from, void *y, tess_dtype to, int64_t n)
{
    TESS_TRY(tess_check_convert(from, to));
    if (n == 0)
        return TESS_OK;
    if (from == to)
        return from == TESS_F32 ? launch_copy<uint32_t>(s, x, y, n) : launch_copy<uint16_t>(s, x, y, n);
    return from == TESS_F32    ? convert_from<float>(s, x, y, to, n)
           : from == TESS_BF16 ? convert_from<cuda_bf16>(s, x, y, to, n)
                               : convert_from<cuda_f16>(s, x, y, to, n);
}

/* ---- AdamW ---- */
template <typename E> struct adamw_arrays {
    float *p, *m, *v;
    const float *g;
    E *copy; /* NULL: there is no copy */
    int64_t n;
};

template <typename E> static __global__ void adamw_kernel(adamw_arrays<E> u, adamw_step a)
{
    TESS_CUDA_EACH(i, u.n)
    {
        float grad = u.g[i] * a.grad_scale;
        float m = u.m[i] + a.one_minus_beta1 * (grad - u.m[i]);
        float v = u.v[i] * a.beta2 + a.one_minus_beta2 * grad * grad;
        float p = u.p[i] * a.decay - a.step_size * m / (sqrtf(v) / a.sqrt_bias2 + a.eps);
        u.m[i] = m;
        u.v[i] = v;
        u.p[i] = p;
        if (u.copy != NULL)
            cuda_store(&u.copy[i], p);
    }
}

template <typename E> static tess_status launch_adamw(tess_stream *s, const tess_adamw_update *u)
{
    adamw_arrays<E> arrays = {u->p, u->m, u->v, u->g, (E *)u->copy, u->n};
    return TESS_CUDA_LAUNCH(adamw_kernel, tess_cuda_blocks(u->n, THREADS), THREADS, 0, s, arrays, adamw_step_of(u));
}

static tess_status adamw(tess_stream *s, const tess_adamw_update *u)
{
    TESS_TRY(tess_check_dtype("adamw", u->copy_dtype));
    TESS_CHECK(u->undo == NULL, TESS_E_UNSUPPORTED, "adamw: a GPU keeps no record of undoing; update on the host");
    return u->n > 0 ? TESS_CUDA_OF(u->copy_dtype, launch_adamw, s, u) : TESS_OK;
}

void tess_kernels_cuda_elementwise(tess_kernels *k)
{
    k->act_forward = act_forward;
    k->act_backward = act_backward;
    k->glu_forward = glu_forward;
    k->glu_backward = glu_backward;
    k->rope = rope;
    k->add = add;
    k->scale = scale;
    k->convert = convert;
    k->round_fp8 = round_fp8;
    k->adamw = adamw;
}
