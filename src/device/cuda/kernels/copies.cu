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

/* Each thread moves one element. */
template <typename E> static __global__ void join_heads_kernel(tess_join_heads_args a)
{
    TESS_CUDA_EACH(i, a.T * a.H * a.D)
    {
        cuda_division row = cuda_divide(i, a.D);
        int64_t c = row.rest;
        E value;
        if (c < a.A)
            value = ((const E *)a.a)[row.quotient * a.a_stride + c];
        else if (c < a.A + a.B)
            value = ((const E *)a.b)[row.quotient * a.b_stride + c - a.A];
        else if (c < a.A + a.B + a.S)
            value = ((const E *)a.shared)[row.quotient / a.H * a.S + c - a.A - a.B];
        else
            cuda_store(&value, 0.0f);
        ((E *)a.y)[i] = value;
    }
}

static tess_status join_heads(tess_stream *s, const tess_join_heads_args *a)
{
    const int64_t n = a->T * a->H * a->D;
    TESS_TRY(tess_check_dtype("heads", a->dtype));
    if (n == 0)
        return TESS_OK;
    return TESS_CUDA_LAUNCH_OF(a->dtype, join_heads_kernel, tess_cuda_blocks(n, THREADS), THREADS, 0, s, *a);
}

void tess_kernels_cuda_copies(tess_kernels *k)
{
    k->copy = copy;
    k->copy_rows = copy_rows;
    k->gather_rows = gather_rows;
    k->join_heads = join_heads;
}
