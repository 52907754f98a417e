/* Rows that move bytes. A thread moves as many bytes at a time as addresses, strides and length allow. */
#include "device/cuda/cuda_rows.h"
#include "device/cuda/cuda_types.h"

enum { THREADS = 256 };

typedef struct alignas(16) cuda_word16 {
    uint64_t half[2];
} cuda_word16;

/* Row i of y is row index[i] of x, or row i if index is NULL. */
template <typename W> static __global__ void move_rows_kernel(tess_copy_rows_args m, const int32_t *index)
{
    int64_t words = m.row_bytes / (int64_t)sizeof(W);
    TESS_CUDA_EACH(i, m.n * words)
    {
        cuda_division row = cuda_divide(i, words);
        int64_t from = index != NULL ? index[row.quotient] : row.quotient;
        const W *x = (const W *)((const char *)m.x + from * m.x_stride);
        ((W *)((char *)m.y + row.quotient * m.y_stride))[row.rest] = x[row.rest];
    }
}

template <typename W>
static tess_status launch_moves(tess_stream *s, const tess_copy_rows_args *m, const int32_t *index)
{
    int64_t words = m->row_bytes / (int64_t)sizeof(W);
    return TESS_CUDA_LAUNCH(move_rows_kernel<W>, tess_cuda_blocks(m->n * words, THREADS), THREADS, 0, s, *m, index);
}

static tess_status move_rows(tess_stream *s, const tess_copy_rows_args *m, const int32_t *index)
{
    int64_t all = (int64_t)(intptr_t)m->x | (int64_t)(intptr_t)m->y | m->x_stride | m->y_stride | m->row_bytes;
    if (m->n == 0 || m->row_bytes == 0)
        return TESS_OK;
    return all % 16 == 0  ? launch_moves<cuda_word16>(s, m, index)
           : all % 4 == 0 ? launch_moves<uint32_t>(s, m, index)
           : all % 2 == 0 ? launch_moves<uint16_t>(s, m, index)
                          : launch_moves<uint8_t>(s, m, index);
}

static tess_status copy_rows(tess_stream *s, const tess_copy_rows_args *a)
{
    return move_rows(s, a, NULL);
}

static tess_status gather_rows(tess_stream *s, const tess_gather_rows_args *a)
{
    const tess_copy_rows_args m = {a->x, a->row_bytes, a->y, a->row_bytes, a->n, a->row_bytes};
    return move_rows(s, &m, a->index);
}

/* `streams` has no effect: a GPU's stores are in its memory once the host has waited for the stream. */
static tess_status copy(tess_stream *s, const tess_copy_args *a)
{
    const tess_copy_rows_args m = {a->from, a->bytes, a->to, a->bytes, 1, a->bytes};
    return move_rows(s, &m, NULL);
}

void tess_kernels_cuda_copies(tess_kernels *k)
{
    k->copy = copy;
    k->copy_rows = copy_rows;
    k->gather_rows = gather_rows;
}
