/* A tile of a product of bfloat16 on tensor cores. Each element of C begins as C, or as 0, and adds its products in
 * steps of 16 along k, ascending. The number of rows does not change this, so bits do not depend on the batch.
 *
 * A block of four warps has a tile of C that is 128 columns wide. Stretches of STRETCH k of both operands are loaded
 * into buffers; one is read while the others are filled. If the rows of an operand run along k, its tile has rows of
 * STRETCH elements. Otherwise its tile has STRETCH rows, which are transposed when they are loaded for the tensor
 * cores.
 *
 * Cost. A warp of the large tile, 128 x 128, has 64 x 64 elements: 32 flops a byte of shared memory. So 128 bytes a
 * clock feed the full rate of an H100. The tile takes 64 KiB of shared memory, and 2 blocks run on a multiprocessor.
 * Each byte of the GPU's memory, or of its cache, feeds 64 flops. For up to 16 rows the tile is 16 x 128, with four
 * buffers, because reading the weights is the limit there. An H100 needs some 2.5 MiB of outstanding reads, and 4096
 * columns give 1.5 MiB. */
#ifndef TESS_DEVICE_CUDA_KERNELS_TENSOR_PRODUCT_H
#define TESS_DEVICE_CUDA_KERNELS_TENSOR_PRODUCT_H

#include "device/cuda/kernels/tensor_tiles.h"

enum { STRETCH = 64, COLUMNS = 128, WARPS = 4, THREADS = WARPS * WARP, FEW_ROWS = ROWS, GROUP = 16 };

/* The position of a block's tile in C. The two or three hundred blocks that run at the same time cover a square of
 * tiles, GROUP high, rather than a line. So they read few rows of A and few columns of B from the GPU's memory. */
typedef struct product_place {
    int64_t m, n;
} product_place;

static __device__ inline product_place place_of_tile(int64_t tiles_m, int64_t tiles_n, int64_t number)
{
    const int64_t first = number / (GROUP * tiles_n) * GROUP, rows = cuda_least(tiles_m - first, GROUP),
                  rest = number - first * tiles_n;
    product_place place = {first + rest % rows, rest / rows};
    return place;
}

/* The layout of a tile whose rows run along N rows or columns of C. */
template <int N> struct tile_across_k {
    enum { WIDTH = N < 64 ? 64 : N }; /* elements */
};

/* Loads N rows or columns of an operand, from `first` on, of which `count` exist, for STRETCH k from `begin` on. */
template <int N>
static __device__ __forceinline__ void copy_operand(tensor_piece *tile, const void *x, int64_t ld, bool along_k,
                                                    int64_t first, int64_t count, int64_t begin, int64_t k)
{
    const uint16_t *at = (const uint16_t *)x + (along_k ? first * ld + begin : begin * ld + first);
    const int left = (int)cuda_least(count - first, N), stretch = (int)cuda_least(k - begin, STRETCH);
    if (along_k)
        copy_tile<STRETCH, N, THREADS>(tile, stretch, [&](int row) { return row < left ? at + row * ld : NULL; });
    else
        copy_tile<tile_across_k<N>::WIDTH, STRETCH, THREADS>(
            tile, left, [&](int row) { return row < stretch ? at + row * ld : NULL; });
}

/* Loads the left factor: rows row .. row + 16 of the tile, step `k` of the stretch. */
template <int N>
static __device__ __forceinline__ void load_rows(uint32_t x[4], tensor_piece *tile, bool along_k, int row, int k)
{
    const int lane = (int)threadIdx.x % WARP;
    if (along_k)
        load_left<STRETCH>(x, tile, row, k);
    else /* rows of the tile are k, so its matrices (k, row) are transposed to (row, k) */
        tensor_load_transposed(
            x, piece_at<tile_across_k<N>::WIDTH>(tile, k * 16 + lane / 16 * 8 + lane % 8, row / 8 + lane / 8 % 2));
}

/* Loads the right factors of 16 columns: x[0], x[1] for the first 8, x[2], x[3] for the others. */
static __device__ __forceinline__ void load_columns(uint32_t x[4], tensor_piece *tile, bool along_k, int column, int k)
{
    const int lane = (int)threadIdx.x % WARP;
    if (along_k)
        tensor_load(x, piece_at<STRETCH>(tile, column + lane / 16 * 8 + lane % 8, 2 * k + lane / 8 % 2));
    else
        tensor_load_transposed(x, piece_at<COLUMNS>(tile, k * 16 + lane % 16, column / 8 + lane / 16));
}

/* Calls f(element of C, sum) for each of this thread's elements of a fragment's row. */
template <typename F>
static __device__ __forceinline__ void each_element(const tess_gemm &g, int64_t row, int64_t column, float (*sum)[4],
                                                    int n_fragments, F f)
{
    TESS_CUDA_UNROLL
    for (int n = 0; n < n_fragments; n++) {
        TESS_CUDA_UNROLL
        for (int i = 0; i < 4; i++) {
            const int64_t r = row + (int)threadIdx.x % WARP / 4 + i / 2 * 8,
                          k = column + n * 8 + (int)threadIdx.x % 4 * 2 + i % 2;
            if (r < g.m && k < g.n)
                f(r * g.ldc + k, k, &sum[n][i]);
        }
    }
}

/* A tile of WARPS_M warps with M rows of fragments each, and the operands in a buffer. */
template <int WARPS_M, int M> struct product_tile {
    enum {
        HEIGHT = WARPS_M * M * ROWS,
        A_PIECES = tile_across_k<HEIGHT>::WIDTH * STRETCH / PIECE,
        PIECES = A_PIECES + COLUMNS * STRETCH / PIECE
    };
};

/* Computes a tile of C. All threads of the block must call this. */
template <typename C, int WARPS_M, int M, int BUFFERS>
static __device__ __forceinline__ void multiply_tile(const tess_gemm &g, product_place place)
{
    typedef product_tile<WARPS_M, M> layout;
    enum { TILE = layout::HEIGHT, WARP_COLUMNS = COLUMNS * WARPS_M / WARPS };
    TESS_CUDA_DYNAMIC_SHARED(tensor_piece, memory);
    const int64_t row0 = place.m * TILE, column0 = place.n * COLUMNS;
    const int warp = (int)threadIdx.x / WARP, row = warp % WARPS_M * M * ROWS, column = warp / WARPS_M * WARP_COLUMNS;
    C *c = (C *)g.c;
    float sum[M][WARP_COLUMNS / 8][4] = {};
    auto copy = [&](int64_t begin, int buffer) {
        if (begin < g.k) {
            tensor_piece *tile = memory + buffer * layout::PIECES;
            copy_operand<TILE>(tile, g.a, g.lda, !g.trans_a, row0, g.m, begin, g.k);
            copy_operand<COLUMNS>(tile + layout::A_PIECES, g.b, g.ldb, g.trans_b, column0, g.n, begin, g.k);
        }
        tensor_copies_end();
    };
    for (int i = 0; i < BUFFERS - 1; i++)
        copy((int64_t)i * STRETCH, i);
    if (g.accumulate) {
        TESS_CUDA_UNROLL
        for (int m = 0; m < M; m++)
            each_element(g, row0 + row + m * ROWS, column0 + column, sum[m], WARP_COLUMNS / 8,
                         [&](int64_t at, int64_t, float *x) { *x = cuda_load(c + at); });
    }
    int buffer = 0;
    for (int64_t begin = 0; begin < g.k; begin += STRETCH, buffer = (buffer + 1) % BUFFERS) {
        tensor_piece *tile = memory + buffer * layout::PIECES;
        tensor_copies_wait<BUFFERS - 2>();
        __syncthreads(); /* the previous buffer is now free again, too */
        copy(begin + (BUFFERS - 1) * STRETCH, (buffer + BUFFERS - 1) % BUFFERS);
        TESS_CUDA_UNROLL
        for (int k = 0; k < STRETCH / 16; k++) {
            uint32_t left[M][4];
            TESS_CUDA_UNROLL
            for (int m = 0; m < M; m++)
                load_rows<TILE>(left[m], tile, !g.trans_a, row + m * ROWS, k);
            TESS_CUDA_UNROLL
            for (int n = 0; n < WARP_COLUMNS / 16; n++) {
                uint32_t right[4];
                load_columns(right, tile + layout::A_PIECES, g.trans_b, column + n * 16, k);
                TESS_CUDA_UNROLL
                for (int m = 0; m < M; m++) {
                    tensor_multiply(sum[m][2 * n], left[m], right[0], right[1]);
                    tensor_multiply(sum[m][2 * n + 1], left[m], right[2], right[3]);
                }
            }
        }
    }
    TESS_CUDA_UNROLL
    for (int m = 0; m < M; m++)
        each_element(g, row0 + row + m * ROWS, column0 + column, sum[m], WARP_COLUMNS / 8,
                     [&](int64_t at, int64_t k, float *x) {
                         cuda_store(c + at, g.bias != NULL ? *x + cuda_load((const cuda_bf16 *)g.bias + k) : *x);
                     });
}

/* The tiles of a product in rows and columns, and the shared memory of one block. */
template <int WARPS_M, int M> static inline int64_t tile_rows(int64_t m)
{
    enum { TILE = product_tile<WARPS_M, M>::HEIGHT };
    return (m + TILE - 1) / TILE;
}

static inline int64_t tile_columns(int64_t n)
{
    return (n + COLUMNS - 1) / COLUMNS;
}

template <int WARPS_M, int M, int BUFFERS> static inline size_t tile_bytes(void)
{
    return BUFFERS * product_tile<WARPS_M, M>::PIECES * sizeof(tensor_piece);
}

#endif
