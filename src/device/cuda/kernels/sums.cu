/* Sums over columns, sums of a row's squares, and exact sums; and the search for the first value that is not finite. */
#include <math.h>

#include "base/core/exact_sum.h"
#include "device/cuda/cuda_rows.h"
#include "device/cuda/cuda_types.h"

enum { WARP = 32, THREADS = 256, COLUMNS = 128, WIDE = 4 };

/* ---- Columns: sums of blocks of TESS_NORM_BLOCK tokens, which are then added in ascending order ---- */
/* Computes parts (blocks, C), the sums of each block of tokens. Each thread has N neighbouring columns, which one
 * access reads; N divides C. */
template <typename E, int N>
static __global__ void column_parts_kernel(tess_column_sum_args a, int64_t strips, float *parts)
{
    const int64_t block = blockIdx.x / strips, c = (blockIdx.x % strips * COLUMNS + threadIdx.x) * N;
    const int64_t begin = block * TESS_NORM_BLOCK, end = cuda_least(begin + TESS_NORM_BLOCK, a.T);
    float sum[N] = {};
    if (c >= a.C)
        return;
    TESS_CUDA_UNROLL_BY_4
    for (int64_t t = begin; t < end; t++) {
        float dy[N];
        cuda_load_some(dy, (const E *)a.dy + t * a.stride + c);
        TESS_CUDA_UNROLL
        for (int i = 0; i < N; i++)
            sum[i] += dy[i];
    }
    for (int i = 0; i < N; i++)
        parts[block * a.C + c + i] = sum[i];
}

template <typename E, int N>
static tess_status launch_parts(tess_stream *s, const tess_column_sum_args *a, float *parts)
{
    const int64_t strips = (a->C + COLUMNS * N - 1) / (COLUMNS * N), blocks = strips * cuda_token_blocks(a->T);
    return TESS_CUDA_LAUNCH((column_parts_kernel<E, N>), blocks, COLUMNS, 0, s, *a, strips, parts);
}

static __global__ void column_sums_kernel(const float *parts, float *db, int64_t n_blocks, int64_t C)
{
    const int64_t c = (int64_t)blockIdx.x * COLUMNS + threadIdx.x;
    if (c < C)
        db[c] = cuda_sum_ascending(parts + c, n_blocks, C);
}

static tess_status column_sum(tess_stream *s, const tess_column_sum_args *a)
{
    const int64_t strips = (a->C + COLUMNS - 1) / COLUMNS, n_blocks = cuda_token_blocks(a->T);
    void *memory;
    TESS_TRY(tess_check_dtype("column_sum", a->dtype));
    if (a->C == 0)
        return TESS_OK;
    TESS_TRY(tess_cuda_scratch(s, (size_t)(n_blocks * a->C + 1) * sizeof(float), &memory));
    float *parts = (float *)memory;
    const bool wide = cuda_is_wide(a->dy) && a->C % WIDE == 0 && a->stride % WIDE == 0;
    if (a->T > 0 && a->dtype == TESS_F32)
        TESS_TRY((launch_parts<float, 1>(s, a, parts)));
    else if (a->T > 0)
        TESS_TRY((wide ? launch_parts<cuda_bf16, WIDE>(s, a, parts) : launch_parts<cuda_bf16, 1>(s, a, parts)));
    return TESS_CUDA_LAUNCH(column_sums_kernel, strips, COLUMNS, 0, s, parts, a->db, n_blocks, a->C);
}

/* ---- Squares of rows: 16 sums in double, two rows for each warp ---- */
enum { SQUARE_LANES = 16, AHEAD = 8 }; /* AHEAD: elements that a thread reads before it adds the first of them */

static __global__ void row_sumsq_kernel(tess_row_sumsq_args a)
{
    int64_t r = (int64_t)blockIdx.x * (THREADS / SQUARE_LANES) + threadIdx.x / SQUARE_LANES;
    double sum = 0;
    for (int64_t i = threadIdx.x % SQUARE_LANES; r < a.rows && i < a.C; i += SQUARE_LANES * AHEAD) {
        float x[AHEAD];
        TESS_CUDA_UNROLL
        for (int j = 0; j < AHEAD; j++)
            x[j] = i + j * SQUARE_LANES < a.C ? a.x[r * a.C + i + j * SQUARE_LANES] : 0.0f; /* adds +0 to no -0 */
        TESS_CUDA_UNROLL
        for (int j = 0; j < AHEAD; j++)
            sum += (double)x[j] * (double)x[j];
    }
    sum = cuda_fold(sum, SQUARE_LANES / 2);
    if (r < a.rows && threadIdx.x % SQUARE_LANES == 0)
        a.out[r] = sum;
}

static tess_status row_sumsq(tess_stream *s, const tess_row_sumsq_args *a)
{
    const int64_t a_block = THREADS / SQUARE_LANES;
    if (a->rows == 0)
        return TESS_OK;
    return TESS_CUDA_LAUNCH(row_sumsq_kernel, (a->rows + a_block - 1) / a_block, THREADS, 0, s, *a);
}

/* ---- Exact sums: of integers, so that the order of additions, and so atomics, do not change them ---- */
typedef unsigned long long limb; /* the type that atomicAdd takes; it wraps around as the signed digits do */

/* Adds a float exactly. Its 24 bits fall into two digits. */
static __device__ void add_exactly(limb *limbs, float value, bool negate)
{
    uint32_t bits = tess_float_bits(value) ^ (negate ? 0x80000000u : 0);
    int exponent = (int)(bits >> 23 & 0xff);
    uint64_t mantissa = bits & 0x7fffffu;
    if (exponent == 0xff) {
        if (mantissa != 0)
            atomicAdd(&limbs[TESS_EXACT_LIMBS - 1], (limb)1);
        else
            atomicAdd(&limbs[TESS_EXACT_LIMBS - 2], bits >> 31 ? (limb)1 << 32 : (limb)1);
        return;
    }
    if (exponent == 0)
        exponent = 1;
    else
        mantissa |= 0x800000u;
    int weight = exponent - 150 + 1074; /* exponent of the lowest bit's weight, counted from 2^-1074 */
    uint64_t wide = mantissa << weight % 32;
    limb low = wide & 0xffffffffu, high = wide >> 32;
    if (low != 0)
        atomicAdd(&limbs[weight / 32], bits >> 31 ? 0 - low : low);
    if (high != 0)
        atomicAdd(&limbs[weight / 32 + 1], bits >> 31 ? 0 - high : high);
}

static __global__ void exact_sum_kernel(const float *x, int64_t n, bool negate, tess_exact_sum *sum)
{
    __shared__ limb limbs[TESS_EXACT_LIMBS];
    for (unsigned i = threadIdx.x; i < TESS_EXACT_LIMBS; i += blockDim.x)
        limbs[i] = 0;
    __syncthreads();
    TESS_CUDA_EACH(i, n)
    add_exactly(limbs, x[i], negate);
    __syncthreads();
    for (unsigned i = threadIdx.x; i < TESS_EXACT_LIMBS; i += blockDim.x)
        if (limbs[i] != 0)
            atomicAdd((limb *)&sum->limb[i], limbs[i]);
}

/* The same as tess_exact_normalize. */
static __global__ void normalize_kernel(tess_exact_sum *sum)
{
    int64_t carry = 0;
    int d = 0;
    for (; d < TESS_EXACT_LIMBS - 3; d++) {
        int64_t digit = sum->limb[d] + carry;
        carry = digit >> 32;
        sum->limb[d] = digit & 0xffffffff;
    }
    sum->limb[d] += carry;
    sum->n_pending = 0;
}

/* The sum is normalised before every 2^30 additions, because a digit has no room for more. */
static tess_status exact_sum(tess_stream *s, const tess_exact_sum_args *a)
{
    const int64_t most = (int64_t)1 << 30;
    for (int64_t begin = 0; begin == 0 || begin < a->n; begin += most) {
        int64_t part = cuda_least(a->n - begin, most);
        TESS_TRY(TESS_CUDA_LAUNCH(normalize_kernel, 1, 1, 0, s, a->sum));
        if (part > 0)
            TESS_TRY(TESS_CUDA_LAUNCH(exact_sum_kernel, tess_cuda_blocks(part, 64 * THREADS), THREADS, 0, s,
                                      a->x + begin, part, a->negate, a->sum));
    }
    return TESS_CUDA_LAUNCH(normalize_kernel, 1, 1, 0, s, a->sum);
}

/* ---- The first value that is not finite ---- */
static __global__ void begin_search_kernel(int64_t *first)
{
    *first = INT64_MAX;
}

static __global__ void end_search_kernel(int64_t *first)
{
    if (*first == INT64_MAX)
        *first = -1;
}

template <typename E> static __global__ void find_not_finite_kernel(tess_find_not_finite_args a)
{
    TESS_CUDA_EACH(i, a.n)
    if (!isfinite(cuda_load((const E *)a.x + i)))
        atomicMin((unsigned long long *)a.first, (unsigned long long)i);
}

static tess_status find_not_finite(tess_stream *s, const tess_find_not_finite_args *a)
{
    TESS_TRY(tess_check_dtype("find_not_finite", a->dtype));
    TESS_TRY(TESS_CUDA_LAUNCH(begin_search_kernel, 1, 1, 0, s, a->first));
    if (a->n > 0)
        TESS_TRY(
            TESS_CUDA_LAUNCH_OF(a->dtype, find_not_finite_kernel, tess_cuda_blocks(a->n, THREADS), THREADS, 0, s, *a));
    return TESS_CUDA_LAUNCH(end_search_kernel, 1, 1, 0, s, a->first);
}

void tess_kernels_cuda_sums(tess_kernels *k)
{
    k->column_sum = column_sum;
    k->row_sumsq = row_sumsq;
    k->exact_sum = exact_sum;
    k->find_not_finite = find_not_finite;
}
