/* Token embedding. Forward cuts tokens; backward cuts columns, so that each element of the table adds its tokens in
 * ascending order on one thread. Compiled once per instruction set, by its table. */
#ifndef TESS_DEVICE_CPU_EMBEDDING_VEC_H
#define TESS_DEVICE_CPU_EMBEDDING_VEC_H

#include "device/cpu/vec_typed.h"

typedef struct embedding {
    const void *table, *positions;
    const int32_t *ids, *pos;
    void *out;        /* forward (T, C) */
    const void *dout; /* backward (T, C) */
    float *dtable;
    int64_t T, C;
    tess_dtype dtype;
} embedding;

static void embedding_forward_loop(void *context, int64_t begin, int64_t end, int worker)
{
    const embedding *e = context;
    size_t row_bytes = (size_t)e->C * tess_dtype_size(e->dtype);
    (void)worker;
    for (int64_t t = begin; t < end; t++) {
        if (e->positions == NULL) {
            memcpy((char *)e->out + (size_t)t * row_bytes, (const char *)e->table + (size_t)e->ids[t] * row_bytes,
                   row_bytes);
            continue;
        }
        for (int64_t i = 0; i < e->C; i += 16) {
            int64_t n = e->C - i < 16 ? e->C - i : 16;
            vec sum = v_add(v_get(e->table, e->ids[t] * e->C + i, n, e->dtype),
                            v_get(e->positions, e->pos[t] * e->C + i, n, e->dtype));
            v_put(e->out, t * e->C + i, sum, n, e->dtype);
        }
    }
}

static void embedding_backward_loop(void *context, int64_t begin, int64_t end, int worker)
{
    const embedding *e = context;
    (void)worker;
    for (int64_t t = 0; t < e->T; t++) {
        float *row = e->dtable + e->ids[t] * e->C;
        for (int64_t i = begin; i < end; i += 16) {
            int64_t n = end - i < 16 ? end - i : 16;
            v_store(row + i, v_add(v_load(row + i, n), v_get(e->dout, t * e->C + i, n, e->dtype)), n);
        }
    }
}

static void zero_loop(void *context, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    memset((float *)context + begin, 0, (size_t)(end - begin) * sizeof(float));
}

static tess_status embedding_forward(tess_stream *s, const void *table, const void *positions, const int32_t *ids,
                                     const int32_t *pos, void *out, int64_t T, int64_t C, tess_dtype dtype)
{
    TESS_TRY(tess_check_dtype("embedding", dtype));
    embedding e = {.table = table, .positions = positions, .ids = ids, .pos = pos, .out = out, .C = C, .dtype = dtype};
    tess_threads_run(s->threads, embedding_forward_loop, &e, T, tess_loop_grain(C));
    return TESS_OK;
}

static tess_status embedding_backward(tess_stream *s, const int32_t *ids, const void *dout, float *dtable, int64_t rows,
                                      int64_t T, int64_t C, bool accumulate, tess_dtype dtype)
{
    TESS_TRY(tess_check_dtype("embedding backward", dtype));
    embedding e = {.ids = ids, .dout = dout, .dtable = dtable, .T = T, .C = C, .dtype = dtype};
    if (!accumulate)
        tess_threads_run(s->threads, zero_loop, dtable, rows * C, tess_loop_grain(0));
    tess_threads_run(s->threads, embedding_backward_loop, &e, C, 64 * tess_loop_grain(64 * T));
    return TESS_OK;
}

#endif
