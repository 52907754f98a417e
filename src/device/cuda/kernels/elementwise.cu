/* Rows that compute each element from a few others. Their speed is limited by memory. Neighbouring threads take
 * neighbouring elements, so that a warp reads and writes whole sectors; the rows of activations take several by one
 * access. */
#include <math.h>

#include "device/cuda/cuda_rows.h"
#include "device/cuda/cuda_types.h"

#include "device/cuda/cuda_vec.h"
#include "device/vmath.h"
#include "device/activation.h"
#include "device/adamw.h"

enum { THREADS = 256 };

/* Launches kernel<E, N> for n elements. A thread has N neighbouring ones: WIDE of bfloat16, which one access reads, if
 * `wide`. Then WIDE divides n. */
enum { WIDE = 8 };
#define LAUNCH_WIDE(dtype, wide, kernel, n, s, ...)                                                               \
    ((dtype) == TESS_F32                                                                                          \
         ? TESS_CUDA_LAUNCH((kernel<float, 1>), tess_cuda_blocks(n, THREADS), THREADS, 0, s, __VA_ARGS__)         \
     : (wide) ? TESS_CUDA_LAUNCH((kernel<cuda_bf16, WIDE>), tess_cuda_blocks((n) / WIDE, THREADS), THREADS, 0, s, \
                                 __VA_ARGS__)                                                                     \
              : TESS_CUDA_LAUNCH((kernel<cuda_bf16, 1>), tess_cuda_blocks(n, THREADS), THREADS, 0, s, __VA_ARGS__))

/* ---- Activations ---- */
/* Calls f<ACT, E, N>(a) for the activation of a, so that loops over elements do not ask for it. */
#define EACH_OF_ACT(f, a)                       \
    do {                                        \
        if ((a).act == TESS_ACT_SILU)           \
            f<TESS_ACT_SILU, E, N>(a);          \
        else if ((a).act == TESS_ACT_GELU_TANH) \
            f<TESS_ACT_GELU_TANH, E, N>(a);     \
        else                                    \
            f<TESS_ACT_GELU_ERF, E, N>(a);      \
    } while (0)

template <tess_activation ACT, typename E, int N>
static __device__ __forceinline__ void act_forward_each(const tess_act_args &a)
{
    TESS_CUDA_EACH(i, a.n / N)
    {
        float x[N];
        cuda_load_some(x, (const E *)a.x + i * N);
        TESS_CUDA_UNROLL
        for (int j = 0; j < N; j++)
            x[j] = v_activate(x[j], ACT);
        cuda_store_some((E *)a.y + i * N, x);
    }
}

template <typename E, int N> static __global__ void act_forward_kernel(tess_act_args a)
{
    EACH_OF_ACT(act_forward_each, a);
}

static tess_status act_forward(tess_stream *s, const tess_act_args *a)
{
    const bool wide = a->n % WIDE == 0 && cuda_is_wide(a->x) && cuda_is_wide(a->y);
    TESS_TRY(tess_check_dtype("activation", a->dtype));
    if (a->n == 0)
        return TESS_OK;
    return LAUNCH_WIDE(a->dtype, wide, act_forward_kernel, a->n, s, *a);
}

template <tess_activation ACT, typename E, int N>
static __device__ __forceinline__ void act_backward_each(const tess_act_grad_args &a)
{
    TESS_CUDA_EACH(i, a.n / N)
    {
        float x[N], dx[N];
        cuda_load_some(x, (const E *)a.x + i * N);
        cuda_load_some(dx, (const E *)a.dy + i * N);
        TESS_CUDA_UNROLL
        for (int j = 0; j < N; j++) {
            float slope;
            x[j] = v_activate_with_slope(x[j], ACT, &slope);
            dx[j] *= slope;
        }
        cuda_store_some((E *)a.dx + i * N, dx);
        if (a.y != NULL)
            cuda_store_some((E *)a.y + i * N, x);
    }
}

template <typename E, int N> static __global__ void act_backward_kernel(tess_act_grad_args a)
{
    EACH_OF_ACT(act_backward_each, a);
}

static tess_status act_backward(tess_stream *s, const tess_act_grad_args *a)
{
    const bool wide =
        a->n % WIDE == 0 && cuda_is_wide(a->x) && cuda_is_wide(a->dy) && cuda_is_wide(a->dx) && cuda_is_wide(a->y);
    TESS_TRY(tess_check_dtype("activation backward", a->dtype));
    if (a->n == 0)
        return TESS_OK;
    return LAUNCH_WIDE(a->dtype, wide, act_backward_kernel, a->n, s, *a);
}

/* ---- Gated activations: element i of (T, F) is in row i / F of the strided arguments ---- */
template <tess_activation ACT, typename E, int N>
static __device__ __forceinline__ void glu_forward_each(const tess_glu_args &a)
{
    TESS_CUDA_EACH(i, a.T * a.F / N)
    {
        const cuda_division row = cuda_divide(i * N, a.F);
        const int64_t at = row.quotient * a.stride + row.rest;
        float gate[N], up[N];
        cuda_load_some(gate, (const E *)a.gate + at);
        cuda_load_some(up, (const E *)a.up + at);
        TESS_CUDA_UNROLL
        for (int j = 0; j < N; j++)
            gate[j] = v_activate(gate[j], ACT) * up[j];
        cuda_store_some((E *)a.y + i * N, gate);
    }
}

template <typename E, int N> static __global__ void glu_forward_kernel(tess_glu_args a)
{
    EACH_OF_ACT(glu_forward_each, a);
}

static tess_status glu_forward(tess_stream *s, const tess_glu_args *a)
{
    const int64_t n = a->T * a->F;
    const bool wide =
        a->F % WIDE == 0 && a->stride % WIDE == 0 && cuda_is_wide(a->gate) && cuda_is_wide(a->up) && cuda_is_wide(a->y);
    TESS_TRY(tess_check_dtype("glu", a->dtype));
    if (n == 0)
        return TESS_OK;
    return LAUNCH_WIDE(a->dtype, wide, glu_forward_kernel, n, s, *a);
}

template <tess_activation ACT, typename E, int N>
static __device__ __forceinline__ void glu_backward_each(const tess_glu_grad_args &a)
{
    TESS_CUDA_EACH(i, a.T * a.F / N)
    {
        const cuda_division row = cuda_divide(i * N, a.F);
        const int64_t at = row.quotient * a.stride + row.rest, to = row.quotient * a.dstride + row.rest;
        float gate[N], up[N], d[N];
        cuda_load_some(gate, (const E *)a.gate + at);
        cuda_load_some(up, (const E *)a.up + at);
        cuda_load_some(d, (const E *)a.dy + i * N);
        float y[N];
        TESS_CUDA_UNROLL
        for (int j = 0; j < N; j++) {
            float slope, activated = v_activate_with_slope(gate[j], ACT, &slope);
            y[j] = activated * up[j];
            gate[j] = d[j] * up[j] * slope;
            up[j] = d[j] * activated;
        }
        cuda_store_some((E *)a.dgate + to, gate);
        cuda_store_some((E *)a.dup + to, up);
        if (a.y != NULL)
            cuda_store_some((E *)a.y + i * N, y);
    }
}

template <typename E, int N> static __global__ void glu_backward_kernel(tess_glu_grad_args a)
{
    EACH_OF_ACT(glu_backward_each, a);
}

static tess_status glu_backward(tess_stream *s, const tess_glu_grad_args *a)
{
    const int64_t n = a->T * a->F;
    const bool wide = a->F % WIDE == 0 && a->stride % WIDE == 0 && a->dstride % WIDE == 0 && cuda_is_wide(a->gate) &&
                      cuda_is_wide(a->up) && cuda_is_wide(a->dy) && cuda_is_wide(a->dgate) && cuda_is_wide(a->dup) &&
                      cuda_is_wide(a->y);
    TESS_TRY(tess_check_dtype("glu backward", a->dtype));
    if (n == 0)
        return TESS_OK;
    return LAUNCH_WIDE(a->dtype, wide, glu_backward_kernel, n, s, *a);
}

/* ---- Pairs of gate and up, next to each other ---- */
template <typename E> static __global__ void clamped_glu_forward_kernel(tess_clamped_glu_args a)
{
    TESS_CUDA_EACH(i, a.T * (a.C / 2))
    {
        const E *x = (const E *)a.x + 2 * i;
        cuda_store((E *)a.y + i, v_clamped_glu(cuda_load(x), cuda_load(x + 1), a.alpha, a.limit));
    }
}

static tess_status clamped_glu_forward(tess_stream *s, const tess_clamped_glu_args *a)
{
    const int64_t n = a->T * (a->C / 2);
    TESS_TRY(tess_check_dtype("clamped glu", a->dtype));
    if (n == 0)
        return TESS_OK;
    return TESS_CUDA_LAUNCH_OF(a->dtype, clamped_glu_forward_kernel, tess_cuda_blocks(n, THREADS), THREADS, 0, s, *a);
}

template <typename E> static __global__ void clamped_glu_backward_kernel(tess_clamped_glu_grad_args a)
{
    TESS_CUDA_EACH(i, a.T * (a.C / 2))
    {
        const E *x = (const E *)a.x + 2 * i;
        float gate = cuda_load(x), up = cuda_load(x + 1), d = cuda_load((const E *)a.dy + i);
        cuda_store((E *)a.y + i, v_clamped_glu_with_slopes(&gate, &up, a.alpha, a.limit));
        cuda_store((E *)a.dx + 2 * i, d * gate);
        cuda_store((E *)a.dx + 2 * i + 1, d * up);
    }
}

static tess_status clamped_glu_backward(tess_stream *s, const tess_clamped_glu_grad_args *a)
{
    const int64_t n = a->T * (a->C / 2);
    TESS_TRY(tess_check_dtype("clamped glu backward", a->dtype));
    if (n == 0)
        return TESS_OK;
    return TESS_CUDA_LAUNCH_OF(a->dtype, clamped_glu_backward_kernel, tess_cuda_blocks(n, THREADS), THREADS, 0, s, *a);
}

/* Reads N floats; if N > 1, from memory that allows accesses of 16 bytes. */
template <int N> static __device__ inline void load_angles(float (&to)[N], const float *from)
{
    enum { PIECE = N < 4 ? N : 4 };
    TESS_CUDA_UNROLL
    for (int i = 0; i < N; i += PIECE) {
        float piece[PIECE];
        cuda_load_some(piece, from + i);
        TESS_CUDA_UNROLL
        for (int j = 0; j < PIECE; j++)
            to[i + j] = piece[j];
    }
}

/* ---- Rotary position embedding: each thread rotates N pairs, whose elements are next to each other if N > 1 ---- */
template <typename E, int N> static __global__ void rope_kernel(tess_rope_args a)
{
    const int64_t half = a.R / 2;
    TESS_CUDA_EACH(i, a.T * a.n_heads * half / N)
    {
        const cuda_division by_pair = cuda_divide(i * N, half), by_head = cuda_divide(by_pair.quotient, a.n_heads);
        const int64_t pair = by_pair.rest, head = by_head.rest, t = by_head.quotient, angle = a.pos[t] * half + pair;
        E *x = (E *)a.x + t * a.stride + head * a.D + a.first + (N == 1 && a.interleaved ? 2 * pair : pair);
        E *y = x + (N == 1 && a.interleaved ? 1 : half);
        float p[N], q[N], cosine[N], sine[N];
        cuda_load_some(p, x);
        cuda_load_some(q, y);
        load_angles(cosine, a.cos_table + angle);
        load_angles(sine, a.sin_table + angle);
        TESS_CUDA_UNROLL
        for (int j = 0; j < N; j++) {
            const float c = cosine[j], d = a.inverse ? -sine[j] : sine[j], first = p[j], second = q[j];
            p[j] = first * c - second * d;
            q[j] = second * c + first * d;
        }
        cuda_store_some(x, p);
        cuda_store_some(y, q);
    }
}

static tess_status rope(tess_stream *s, const tess_rope_args *a)
{
    const int64_t n = a->T * a->n_heads * (a->R / 2);
    const bool wide = !a->interleaved && a->R / 2 % WIDE == 0 && a->D % WIDE == 0 && a->first % WIDE == 0 &&
                      a->stride % WIDE == 0 && cuda_is_wide(a->x) && cuda_is_wide(a->cos_table) &&
                      cuda_is_wide(a->sin_table);
    TESS_TRY(tess_check_dtype("rope", a->dtype));
    if (n == 0)
        return TESS_OK;
    return LAUNCH_WIDE(a->dtype, wide, rope_kernel, n, s, *a);
}

/* ---- Bounds ---- */
template <typename E> static __global__ void clip_kernel(tess_clip_args a)
{
    TESS_CUDA_EACH(i, a.n)
    {
        const float x = cuda_load((const E *)a.x + i);
        float y = x > a.limit ? a.limit : x < -a.limit ? -a.limit : x;
        if (a.dy != NULL)
            y = x >= -a.limit && x <= a.limit ? cuda_load((const E *)a.dy + i) : 0;
        cuda_store((E *)a.y + i, y);
    }
}

static tess_status clip(tess_stream *s, const tess_clip_args *a)
{
    TESS_TRY(tess_check_dtype("clip", a->dtype));
    if (a->n == 0)
        return TESS_OK;
    return TESS_CUDA_LAUNCH_OF(a->dtype, clip_kernel, tess_cuda_blocks(a->n, THREADS), THREADS, 0, s, *a);
}

/* ---- Sums over the heads of a token ---- */
template <typename E> static __global__ void sum_heads_kernel(tess_sum_heads_args a)
{
    TESS_CUDA_EACH(i, a.T * a.C)
    {
        cuda_division token = cuda_divide(i, a.C);
        const E *x = (const E *)a.x + token.quotient * a.H * a.stride + token.rest;
        float sum = 0;
        for (int64_t h = 0; h < a.H; h++)
            sum += cuda_load(x + h * a.stride);
        cuda_store((E *)a.y + i, sum);
    }
}

static tess_status sum_heads(tess_stream *s, const tess_sum_heads_args *a)
{
    const int64_t n = a->T * a->C;
    TESS_TRY(tess_check_dtype("sum of heads", a->dtype));
    if (n == 0)
        return TESS_OK;
    return TESS_CUDA_LAUNCH_OF(a->dtype, sum_heads_kernel, tess_cuda_blocks(n, THREADS), THREADS, 0, s, *a);
}

/* ---- Sum of two ---- */
template <typename E> static __global__ void add_kernel(tess_add_args a)
{
    TESS_CUDA_EACH(i, a.n)
    cuda_store((E *)a.y + i,
               fmaf(tess_factor_of(a.factor), cuda_load((const E *)a.a + i), cuda_load((const E *)a.b + i)));
}

static tess_status add(tess_stream *s, const tess_add_args *a)
{
    TESS_TRY(tess_check_dtype("add", a->dtype));
    if (a->n == 0)
        return TESS_OK;
    return TESS_CUDA_LAUNCH_OF(a->dtype, add_kernel, tess_cuda_blocks(a->n, THREADS), THREADS, 0, s, *a);
}

/* ---- Multiples ---- */
template <typename E> static __global__ void scale_kernel(tess_scale_args a)
{
    TESS_CUDA_EACH(i, a.n)
    {
        const float x = a.factor * cuda_load((const E *)a.x + i);
        cuda_store((E *)a.y + i, a.soft_cap != 0 ? v_soft_cap(x, a.soft_cap, 1 / a.soft_cap) : x);
    }
}

static tess_status scale(tess_stream *s, const tess_scale_args *a)
{
    TESS_TRY(tess_check_dtype("scale", a->dtype));
    if (a->n == 0)
        return TESS_OK;
    return TESS_CUDA_LAUNCH_OF(a->dtype, scale_kernel, tess_cuda_blocks(a->n, THREADS), THREADS, 0, s, *a);
}

/* ---- fp8: each thread rounds one block. A row has `blocks` blocks ---- */
template <typename E> static __global__ void round_fp8_kernel(tess_round_fp8_args a, int64_t blocks)
{
    TESS_CUDA_EACH(i, a.rows * blocks)
    {
        int64_t row = i / blocks, begin = i % blocks * TESS_FP8_BLOCK;
        int64_t end = begin + TESS_FP8_BLOCK < a.C ? begin + TESS_FP8_BLOCK : a.C;
        const E *x = (const E *)a.x + row * a.stride;
        E *y = (E *)a.y + row * a.C;
        float most = 0, none = 0; /* none: NaN if an element is not finite */
        for (int64_t c = begin; c < end; c++) {
            float value = cuda_load(&x[c]);
            most = fmaxf(fabsf(value), most);
            none += value - value;
        }
        float scale = tess_fp8_scale(most, a.format);
        for (int64_t c = begin; c < end; c++) {
            float value = cuda_load(&x[c]);
            cuda_store(&y[c], none == 0 ? tess_round_fp8(value, scale, a.format) : value);
        }
    }
}

static tess_status round_fp8(tess_stream *s, const tess_round_fp8_args *a)
{
    const int64_t blocks = (a->C + TESS_FP8_BLOCK - 1) / TESS_FP8_BLOCK, n = a->rows * blocks;
    TESS_TRY(tess_check_dtype("round_fp8", a->dtype));
    if (n == 0)
        return TESS_OK;
    return TESS_CUDA_LAUNCH_OF(a->dtype, round_fp8_kernel, tess_cuda_blocks(n, THREADS), THREADS, 0, s, *a, blocks);
}

static __global__ void fp8_encode_kernel(tess_fp8_encode_args a, int64_t blocks)
{
    TESS_CUDA_EACH(i, a.rows * blocks)
    {
        int64_t row = i / blocks, block = i % blocks, at = block * TESS_FP8_BLOCK;
        int64_t n = a.C - at < TESS_FP8_BLOCK ? a.C - at : (int64_t)TESS_FP8_BLOCK;
        uint8_t *codes = a.codes + row * a.row_bytes;
        codes[a.C + block] = tess_fp8_encode(a.x + row * a.C + at, n, a.dtype == TESS_BF16, codes + at);
    }
}

static tess_status fp8_encode(tess_stream *s, const tess_fp8_encode_args *a)
{
    const int64_t blocks = a->row_bytes - a->C, n = a->rows * blocks;
    TESS_TRY(tess_check_dtype("fp8_encode", a->dtype));
    if (n == 0)
        return TESS_OK;
    return TESS_CUDA_LAUNCH(fp8_encode_kernel, tess_cuda_blocks(n, THREADS), THREADS, 0, s, *a, blocks);
}

template <typename E> static __global__ void fp8_decode_kernel(tess_fp8_decode_args a)
{
    TESS_CUDA_EACH(i, a.rows * a.C)
    {
        int64_t row = i / a.C, c = i % a.C;
        const uint8_t *codes = a.codes + row * a.row_bytes;
        cuda_store((E *)a.y + i, tess_fp8_decode(codes[c], codes[a.C + c / TESS_FP8_BLOCK]));
    }
}

static tess_status fp8_decode(tess_stream *s, const tess_fp8_decode_args *a)
{
    const int64_t n = a->rows * a->C;
    TESS_TRY(tess_check_dtype("fp8_decode", a->dtype));
    if (n == 0)
        return TESS_OK;
    return TESS_CUDA_LAUNCH_OF(a->dtype, fp8_decode_kernel, tess_cuda_blocks(n, THREADS), THREADS, 0, s, *a);
}

/* ---- Other dtypes ---- */
/* Keeps the bits of a NaN. */
template <typename N> static __global__ void copy_kernel(tess_convert_args a)
{
    TESS_CUDA_EACH(i, a.n)
    ((N *)a.y)[i] = ((const N *)a.x)[i];
}

template <typename From, typename To> static __global__ void convert_kernel(tess_convert_args a)
{
    TESS_CUDA_EACH(i, a.n)
    cuda_store((To *)a.y + i, cuda_load((const From *)a.x + i));
}

/* Converts to `first`, or to the third dtype. */
template <typename From, typename First, typename Third>
static tess_status convert_from(tess_stream *s, const tess_convert_args *a, tess_dtype first)
{
    const unsigned blocks = tess_cuda_blocks(a->n, THREADS);
    return a->to == first ? TESS_CUDA_LAUNCH((convert_kernel<From, First>), blocks, THREADS, 0, s, *a)
                          : TESS_CUDA_LAUNCH((convert_kernel<From, Third>), blocks, THREADS, 0, s, *a);
}

static tess_status convert(tess_stream *s, const tess_convert_args *a)
{
    const unsigned blocks = tess_cuda_blocks(a->n, THREADS);
    TESS_TRY(tess_check_convert(a->from, a->to));
    if (a->n == 0)
        return TESS_OK;
    if (a->from == a->to)
        return a->from == TESS_F32 ? TESS_CUDA_LAUNCH(copy_kernel<uint32_t>, blocks, THREADS, 0, s, *a)
                                   : TESS_CUDA_LAUNCH(copy_kernel<uint16_t>, blocks, THREADS, 0, s, *a);
    return a->from == TESS_F32    ? convert_from<float, cuda_bf16, cuda_f16>(s, a, TESS_BF16)
           : a->from == TESS_BF16 ? convert_from<cuda_bf16, float, cuda_f16>(s, a, TESS_F32)
                                  : convert_from<cuda_f16, float, cuda_bf16>(s, a, TESS_F32);
}

/* ---- AdamW ---- */
template <typename E> static __global__ void adamw_kernel(tess_adamw_update u, adamw_step a)
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
            cuda_store((E *)u.copy + i, p);
    }
}

static tess_status adamw(tess_stream *s, const tess_adamw_update *u)
{
    TESS_TRY(tess_check_dtype("adamw", u->copy_dtype));
    TESS_CHECK(u->undo == NULL, TESS_E_UNSUPPORTED, "adamw: a GPU keeps no record of undoing; update on the host");
    if (u->n == 0)
        return TESS_OK;
    return TESS_CUDA_LAUNCH_OF(u->copy_dtype, adamw_kernel, tess_cuda_blocks(u->n, THREADS), THREADS, 0, s, *u,
                               adamw_step_of(u));
}

void tess_kernels_cuda_elementwise(tess_kernels *k)
{
    k->clamped_glu_forward = clamped_glu_forward;
    k->clamped_glu_backward = clamped_glu_backward;
    k->act_forward = act_forward;
    k->act_backward = act_backward;
    k->glu_forward = glu_forward;
    k->glu_backward = glu_backward;
    k->rope = rope;
    k->sum_heads = sum_heads;
    k->clip = clip;
    k->add = add;
    k->scale = scale;
    k->convert = convert;
    k->round_fp8 = round_fp8;
    k->fp8_encode = fp8_encode;
    k->fp8_decode = fp8_decode;
    k->adamw = adamw;
}
