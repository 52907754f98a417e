/* Tiles of bfloat16 in shared memory, and products of them on tensor cores.
 *
 * A tile has rows of D elements, D 64 or more, in pieces of 16 bytes. Piece p of row r is stored at place p ^ (r & 7).
 * So the same piece of eight rows, which a tensor core loads at once, is in different banks, and so are the pieces of
 * one row. */
#ifndef TESS_DEVICE_CUDA_KERNELS_TENSOR_TILES_H
#define TESS_DEVICE_CUDA_KERNELS_TENSOR_TILES_H

#include <math.h>

#include "device/cuda/cuda_tensor.h"

enum {
    WARP = 32,
    ROWS = 16, /* rows of a warp, which are the rows of a fragment */
    PIECE = 8  /* elements */
};

template <int D> static __device__ __forceinline__ tensor_piece *piece_at(tensor_piece *tile, int row, int piece)
{
    return tile + row * (D / PIECE) + (piece ^ (row & 7));
}

/* Copies n elements, 0 to PIECE, and zeros after them. The copy is asynchronous if memory is aligned to 16 bytes. */
static __device__ __forceinline__ void copy_piece(tensor_piece *to, const uint16_t *from, int n)
{
    if (n > 0 && (uintptr_t)from % sizeof(*to) == 0) {
        tensor_copy(to, from, n * (int)sizeof(*from));
        return;
    }
    uint32_t x[PIECE];
    TESS_CUDA_UNROLL
    for (int i = 0; i < PIECE; i++)
        x[i] = i < n ? from[i] : 0;
    TESS_CUDA_UNROLL
    for (int i = 0; i < PIECE / 2; i++)
        to->words[i] = x[2 * i] | x[2 * i + 1] << 16;
}

/* Copies a tile of N rows of D elements, of which memory has the first `width`. row_at(i) returns the address of row i;
 * NULL: zeros. All THREADS of the block must call this. */
template <int D, int N, int THREADS, typename F>
static __device__ __forceinline__ void copy_tile(tensor_piece *tile, int width, F row_at)
{
    static_assert(N * D / PIECE % THREADS == 0, "each thread copies as many pieces");
    for (int e = (int)threadIdx.x; e < N * D / PIECE; e += THREADS) {
        int row = e / (D / PIECE), piece = e % (D / PIECE), left = width - piece * PIECE;
        const uint16_t *from = row_at(row);
        int n = from == NULL || left <= 0 ? 0 : left < PIECE ? left : PIECE;
        copy_piece(piece_at<D>(tile, row, piece), n > 0 ? from + piece * PIECE : NULL, n);
    }
}

/* Loads rows row .. row + ROWS of a tile, elements 16 k .. 16 k + 16, as the left factor. */
template <int D> static __device__ __forceinline__ void load_left(uint32_t x[4], tensor_piece *tile, int row, int k)
{
    int lane = (int)threadIdx.x % WARP;
    tensor_load(x, piece_at<D>(tile, row + lane % ROWS, 2 * k + lane / ROWS));
}

/* sum (ROWS, N) += left (ROWS, 16) times elements 16 k .. 16 k + 16 of N rows of a tile. sum[n] is a fragment. */
template <int D, int N>
static __device__ __forceinline__ void multiply_by_rows(float (*sum)[4], const uint32_t left[4], tensor_piece *tile,
                                                        int k)
{
    int lane = (int)threadIdx.x % WARP, row = lane / 16 * 8 + lane % 8, piece = 2 * k + lane / 8 % 2;
    TESS_CUDA_UNROLL
    for (int n = 0; n < N / 16; n++) {
        uint32_t x[4];
        tensor_load(x, piece_at<D>(tile, n * 16 + row, piece));
        tensor_multiply(sum[2 * n], left, x[0], x[1]);
        tensor_multiply(sum[2 * n + 1], left, x[2], x[3]);
    }
}

/* sum (ROWS, D) += left (ROWS, 16) times rows 16 k .. 16 k + 16 of a tile. */
template <int D>
static __device__ __forceinline__ void multiply_by_columns(float (*sum)[4], const uint32_t left[4], tensor_piece *tile,
                                                           int k)
{
    int lane = (int)threadIdx.x % WARP, row = k * 16 + lane % 16;
    TESS_CUDA_UNROLL
    for (int n = 0; n < D / 16; n++) {
        uint32_t x[4];
        tensor_load_transposed(x, piece_at<D>(tile, row, 2 * n + lane / 16));
        tensor_multiply(sum[2 * n], left, x[0], x[1]);
        tensor_multiply(sum[2 * n + 1], left, x[2], x[3]);
    }
}

/* Converts the sums of a product to the left factor of another: columns 16 k .. 16 k + 16, rounded. */
static __device__ __forceinline__ void round_to_left(uint32_t x[4], const float (*sum)[4], int k)
{
    TESS_CUDA_UNROLL
    for (int i = 0; i < 4; i++)
        x[i] = tensor_pack(sum[2 * k + i / 2][i % 2 * 2], sum[2 * k + i / 2][i % 2 * 2 + 1]);
}

/* ---- The same with addresses that a loop keeps ----
 * The address of a lane's piece is that of its first one with bits 5 and 6 changed, and in the second half of a row of
 * 128 elements 128 bytes further. Rows that are a multiple of 8 further are at a constant distance. So a load takes at
 * most one instruction for its address. */
template <int I> struct constant {
    static constexpr int value = I;
};

/* Calls f(constant<0>), f(constant<1>) .. f(constant<N - 1>). */
template <int N, int I = 0, typename F> static __device__ __forceinline__ void each_constant(F f)
{
    if constexpr (I < N) {
        f(constant<I>());
        each_constant<N, I + 1>(f);
    }
}

/* The place of this lane's first piece in a tile: of the left factor, and of a transposed right one. */
template <int D> static __device__ __forceinline__ tensor_address left_place(void)
{
    const int lane = (int)threadIdx.x % WARP, row = lane % ROWS;
    return (tensor_address)(row * D * 2 + ((lane / ROWS) ^ (row & 7)) * (int)sizeof(tensor_piece));
}

/* The same of a right factor whose columns are rows of the tile. */
template <int D> static __device__ __forceinline__ tensor_address right_place(void)
{
    const int lane = (int)threadIdx.x % WARP, row = lane / 16 * 8 + lane % 8;
    return (tensor_address)(row * D * 2 + ((lane / 8 % 2) ^ (row & 7)) * (int)sizeof(tensor_piece));
}

/* Loads elements 16 K .. 16 K + 16 of rows ROW .. ROW + 16. `place`: of the lane, in this tile. */
template <int D, int ROW, int K> static __device__ __forceinline__ void load_at(uint32_t x[4], tensor_address place)
{
    tensor_load_at<ROW * D * 2 + K / 4 * 128>(x, place ^ (K % 4 * 32));
}

template <int D, int ROW, int K>
static __device__ __forceinline__ void load_transposed_at(uint32_t x[4], tensor_address place)
{
    tensor_load_transposed_at<ROW * D * 2 + K / 4 * 128>(x, place ^ (K % 4 * 32));
}

/* sum (R * ROWS, N) = first + left (R * ROWS, D) times N rows of a tile, from row ROW on. `left(k, x)` sets the R left
 * factors of elements 16 k .. 16 k + 16. `first(r, n)` is the address of a fragment. */
template <int D, int N, int ROW, int R, typename L, typename F>
static __device__ __forceinline__ void multiply_rows(float (*sum)[N / 8][4], tensor_address place, L left, F first)
{
    each_constant<D / 16>([&](auto k) {
        uint32_t a[R][4];
        left(k, a);
        each_constant<N / 16>([&](auto n) {
            uint32_t x[4];
            load_at<D, ROW + n.value * 16, k.value>(x, place);
            TESS_CUDA_UNROLL
            for (int r = 0; r < R; r++) {
                float(*const to)[4] = &sum[r][2 * n.value];
                if (k.value == 0) {
                    tensor_multiply_first(to[0], first(r, 2 * n.value), a[r], x[0], x[1]);
                    tensor_multiply_first(to[1], first(r, 2 * n.value + 1), a[r], x[2], x[3]);
                } else {
                    tensor_multiply(to[0], a[r], x[0], x[1]);
                    tensor_multiply(to[1], a[r], x[2], x[3]);
                }
            }
        });
    });
}

/* Adds weights (R * ROWS, N), rounded, times N rows of a tile, from row ROW on, to sums (R * ROWS, D). sum(r) is the
 * address of the fragments of ROWS rows. */
template <int D, int N, int ROW, int R, typename S>
static __device__ __forceinline__ void multiply_columns(S sum, float (*weights)[N / 8][4], tensor_address place)
{
    each_constant<N / 16>([&](auto k) {
        uint32_t a[R][4];
        TESS_CUDA_UNROLL
        for (int r = 0; r < R; r++)
            round_to_left(a[r], weights[r], k.value);
        each_constant<D / 16>([&](auto n) {
            uint32_t x[4];
            load_transposed_at<D, ROW + k.value * 16, n.value>(x, place);
            TESS_CUDA_UNROLL
            for (int r = 0; r < R; r++) {
                tensor_multiply(sum(r)[2 * n.value], a[r], x[0], x[1]);
                tensor_multiply(sum(r)[2 * n.value + 1], a[r], x[2], x[3]);
            }
        });
    });
}

/* Copies N rows of a matrix, `stride` apart, of which memory has `present`, as copy_tile. */
template <int D, int N, int THREADS>
static __device__ __forceinline__ void copy_rows(tensor_piece *tile, int width, const uint16_t *x, int64_t stride,
                                                 int64_t present)
{
    enum { PIECES = D / PIECE, STEP = THREADS / PIECES /* rows that the block copies at a time */ };
    const int64_t bytes = stride * (int64_t)sizeof(*x);
    if constexpr (STEP % 8 == 0)
        if (present >= N && width == D && ((uintptr_t)x | (uintptr_t)bytes) % sizeof(*tile) == 0) {
            const int row = (int)threadIdx.x / PIECES, piece = (int)threadIdx.x % PIECES;
            const tensor_address to = tensor_address_of(piece_at<D>(tile, row, piece));
            tensor_source from = tensor_source_of(x + row * stride + piece * PIECE);
            each_constant<N / STEP>([&](auto i) {
                tensor_copy_at<i.value * STEP * D * 2>(to, from);
                from += (tensor_source)(STEP * bytes);
            });
            return;
        }
    copy_tile<D, N, THREADS>(tile, width, [&](int row) { return row < present ? x + row * stride : NULL; });
}

/* Returns the sum over the four threads that share a fragment's rows. */
static __device__ __forceinline__ float sum_of_row(float x)
{
    x += __shfl_xor_sync(0xffffffffu, x, 1u);
    return x + __shfl_xor_sync(0xffffffffu, x, 2u);
}

static __device__ __forceinline__ float largest_of_row(float x)
{
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1u));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2u));
}

/* Stores this thread's elements of row `half` (0, or 1: 8 further) of a product, times `factor`, to a row of memory of
 * which `width` elements exist. */
template <int D>
static __device__ __forceinline__ void store_row(uint16_t *to, int width, const float (*sum)[4], int half, float factor)
{
    int column = (int)threadIdx.x % 4 * 2;
    bool pairs = (uintptr_t)to % sizeof(uint32_t) == 0;
    TESS_CUDA_UNROLL
    for (int n = 0; n < D / 8; n++, column += 8) {
        /* A value that underflowed to -0 is stored as 0 (device/ref/ref_attention.c). */
        uint32_t pair = tensor_pack(sum[n][2 * half] * factor + 0.0f, sum[n][2 * half + 1] * factor + 0.0f);
        if (pairs && column + 1 < width) {
            *(uint32_t *)(to + column) = pair;
            continue;
        }
        if (column < width)
            to[column] = (uint16_t)pair;
        if (column + 1 < width)
            to[column + 1] = (uint16_t)(pair >> 16);
    }
}

#endif
