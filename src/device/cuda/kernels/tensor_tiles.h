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
