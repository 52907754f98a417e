#include "nn/layers/layers.h"

int64_t tess_head_chunk(int64_t vocab_size)
{
    return vocab_size <= 16384 ? 1024 : vocab_size <= 65536 ? 512 : 256;
}

int64_t tess_head_row(int64_t vocab_size)
{
    return (vocab_size + 31) / 32 * 32;
}

/* The head with output rows of `dtype` that start where rows of float32 logits do. */
static tess_linear rows_of_logits(const tess_linear *head, tess_dtype dtype)
{
    tess_linear rows = *head;
    rows.out_stride = tess_head_row(head->n_out) * (int64_t)(sizeof(float) / tess_dtype_size(dtype));
    return rows;
}

tess_status tess_head_forward(const tess_layer_call *c, const void *y, float *logits, float *logprob, float *entropy)
{
    tess_linear forward = rows_of_logits(&c->block->head, TESS_F32);
    int64_t V = forward.n_out, C = forward.n_in, stride = forward.out_stride, chunk = tess_head_chunk(V);
    for (int64_t begin = 0; begin < c->T; begin += chunk) {
        tess_layer_call part = *c;
        part.T = c->T - begin < chunk ? c->T - begin : chunk;
        TESS_TRY(tess_linear_forward_f32(&part, &forward, tess_at(c, y, begin * C), logits));
        TESS_TRY(c->kernels->cross_entropy(c->stream, logits, stride, c->batch->targets + begin, logprob + begin,
                                           entropy != NULL ? entropy + begin : NULL, NULL, stride, part.T, V,
                                           c->dtype));
    }
    return TESS_OK;
}

tess_status tess_head_train(const tess_layer_call *c, void *y, float *logits, bool want_dy, float *logprob)
{
    tess_linear forward = rows_of_logits(&c->block->head, TESS_F32),
                backward = rows_of_logits(&c->block->head, c->dtype);
    int64_t V = forward.n_out, C = forward.n_in, chunk = tess_head_chunk(V), begin = 0;
    do { /* once even without tokens: the gradient buffer must be written */
        tess_layer_call part = *c;
        part.T = c->T - begin < chunk ? c->T - begin : chunk;
        void *rows = tess_at(c, y, begin * C);
        TESS_TRY(tess_linear_forward_f32(&part, &forward, rows, logits));
        TESS_TRY(c->kernels->cross_entropy(c->stream, logits, forward.out_stride, c->batch->targets + begin,
                                           logprob + begin, NULL, logits, backward.out_stride, part.T, V, c->dtype));
        TESS_TRY(tess_linear_backward_params(&part, &backward, rows, logits, begin > 0));
        if (want_dy)
            TESS_TRY(tess_linear_backward_input(&part, &backward, logits, rows));
        begin += chunk;
    } while (begin < c->T);
    return TESS_OK;
}
