/* Token embedding. Forward is parallel over tokens. Backward is parallel over columns, so that one thread adds the
 * tokens of each element of the table, in ascending order. */
#include "device/cpu/vec_rows.h"

typedef struct embedding_row {
    const tess_embedding_args *args;
    int64_t token, position, out; /* offsets of the row in the two tables and in `out` */
} embedding_row;

TESS_INLINE void embedding_sum(const embedding_row *r, int64_t i, int64_t n, tess_dtype dtype)
{
    const vec factor = v_set(tess_factor_of(r->args->factor));
    pair x = p_get(r->args->table, r->token + i, n, dtype);
    if (r->args->positions != NULL)
        x = p_fma(x, (pair){factor, factor}, p_get(r->args->positions, r->position + i, n, dtype));
    else
        x = (pair){v_mul(x.a, factor), v_mul(x.b, factor)};
    p_put(r->args->out, r->out + i, x, n, dtype);
}

TESS_INLINE void embedding_sum_f32(const void *context, int64_t i, int64_t n)
{
    embedding_sum(context, i, n, TESS_F32);
}

TESS_INLINE void embedding_sum_bf16(const void *context, int64_t i, int64_t n)
{
    embedding_sum(context, i, n, TESS_BF16);
}

static void embedding_forward_loop(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const tess_embedding_args *e = context;
    size_t row_bytes = (size_t)e->C * tess_dtype_size(e->dtype);
    for (int64_t t = begin; t < end; t++) {
        if (e->positions == NULL && tess_factor_of(e->factor) == 1) {
            memcpy((char *)e->out + (size_t)t * row_bytes, (const char *)e->table + (size_t)e->ids[t] * row_bytes,
                   row_bytes);
            continue;
        }
        embedding_row row = {e, e->ids[t] * e->C, e->positions != NULL ? e->pos[t] * e->C : 0, t * e->C};
        if (e->dtype == TESS_F32)
            row_pairs(embedding_sum_f32, &row, 0, e->C);
        else
            row_pairs(embedding_sum_bf16, &row, 0, e->C);
    }
}

static void embedding_backward_loop(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const tess_embedding_grad_args *e = context;
    const vec factor = v_set(tess_factor_of(e->factor));
    for (int64_t t = 0; t < e->T; t++) {
        float *row = e->dtable + e->ids[t] * e->C;
        for (int64_t i = begin; i < end; i += 16) {
            int64_t n = end - i < 16 ? end - i : 16;
            v_store(row + i, v_fma(v_get(e->dout, t * e->C + i, n, e->dtype), factor, v_load(row + i, n)), n);
        }
    }
}

static void zero_loop(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    memset((float *)context + begin, 0, (size_t)(end - begin) * sizeof(float));
}

tess_status VEC_NAME(embedding_forward)(tess_stream *s, const tess_embedding_args *e)
{
    TESS_TRY(tess_check_dtype("embedding", e->dtype));
    tess_threads_run(s->threads, embedding_forward_loop, (void *)e, e->T, tess_loop_grain(e->C));
    return TESS_OK;
}

tess_status VEC_NAME(embedding_backward)(tess_stream *s, const tess_embedding_grad_args *e)
{
    TESS_TRY(tess_check_dtype("embedding backward", e->dtype));
    if (!e->accumulate)
        tess_threads_run(s->threads, zero_loop, e->dtable, e->rows * e->C, tess_loop_grain(0));
    tess_threads_run(s->threads, embedding_backward_loop, (void *)e, e->C, 64 * tess_loop_grain(64 * e->T));
    return TESS_OK;
}
