/* Rows that move bytes. A thread moves as many bytes at a time as addresses, strides and length allow. */
#include "device/cuda/cuda_rows.h"
#include "device/cuda/cuda_types.h"

enum { THREADS = 256 };

typedef struct alignas(16) cuda_word16 {
    uint64_t half[2];
} cuda_word16;

/* A copy of rows: row i of y is row index[i] of x, or row i if index is NULL. */
typedef struct row_moves {
    const char *x;
    char *y;
    size_t x_stride, y_stride, row_bytes;
    const int32_t *index;
    int64_t n;
} row_moves;

template <typename W> static __global__ void move_rows_kernel(row_moves m)
{
    int64_t words = (int64_t)(m.row_bytes / sizeof(W));
    TESS_CUDA_EACH(i, m.n * words)
    {
        cuda_division row = cuda_divide(i, words);
        int64_t from = m.index != NULL ? m.index[row.quotient] : row.quotient;
        const W *x = (const W *)(m.x + (size_t)from * m.x_stride);
        ((W *)(m.y + (size_t)row.quotient * m.y_stride))[row.rest] = x[row.rest];
    }
}

template <typename W> static tess_status launch_moves(tess_stream *s, const row_moves *m)
{
    int64_t words = (int64_t)(m->row_bytes / sizeof(W));
    return TESS_CUDA_LAUNCH(move_rows_kernel<W>, tess_cuda_blocks(m->n * words, THREADS), THREADS, 0, s, *m);
}

static tess_status move_rows(tess_stream *s, const row_moves *m)
{
    size_t all = (size_t)(uintptr_t)m->x | (size_t)(uintptr_t)m->y | m->x_stride | m->y_stride | m->row_bytes;
    if (m->n == 0 || m->row_bytes == 0)
        return TESS_OK;
    return all % 16 == 0  ? launch_moves<cuda_word16>(s, m)
           : all % 4 == 0 ? launch_moves<uint32_t>(s, m)
           : all % 2 == 0 ? launch_moves<uint16_t>(s, m)
                          : launch_moves<uint8_t>(s, m);
}

static tess_status copy_rows(tess_stream *s, const void *x, size_t x_stride, void *y, size_t y_stride, int64_t n,
                             size_t row_bytes)
{
    row_moves m = {(const char *)x, (char *)y, x_stride, y_stride, row_bytes, NULL, n};
    return move_rows(s, &m);
}

static tess_status gather_rows(tess_stream *s, const void *x, const int32_t *index, void *y, int64_t n,
                               size_t row_bytes)
{
    row_moves m = {(const char *)x, (char *)y, row_bytes, row_bytes, row_bytes, index, n};
    return move_rows(s, &m);
}

/* `streams` has no effect: a GPU's stores are in its memory once the host has waited for the stream. */
static tess_status copy(tess_stream *s, void *to, const void *from, size_t bytes, bool streams)
{
    (void)streams;
    return copy_rows(s, from, bytes, to, bytes, 1, bytes);
}

void tess_kernels_cuda_copies(tess_kernels *k)
{
    k->copy = copy;
    k->copy_rows = copy_rows;
    k->gather_rows = gather_rows;
}
