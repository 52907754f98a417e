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

/* The rows of a chunk: part->T of them from `begin` on, of temperature 1. */
static tess_cross_entropy rows_of_chunk(const tess_layer_call *part, int64_t begin, const float *logits, float *logprob)
{
    int64_t V = part->block->head.n_out;
    return (tess_cross_entropy){.n = part->T,
                                .V = V,
                                .logits = logits,
                                .ld = tess_head_row(V),
                                .targets = part->batch->targets + begin,
                                .inv_temperature = 1,
                                .logprob = logprob + begin,
                                .dtype = part->dtype};
}

tess_status tess_head_forward(const tess_layer_call *c, const void *y, float *logits, float *logprob, float *entropy)
{
    tess_linear forward = rows_of_logits(&c->block->head, TESS_F32);
    int64_t C = forward.n_in, chunk = tess_head_chunk(forward.n_out);
    for (int64_t begin = 0; begin < c->T; begin += chunk) {
        tess_layer_call part = *c;
        part.T = c->T - begin < chunk ? c->T - begin : chunk;
        TESS_TRY(tess_linear_forward_f32(&part, &forward, tess_at(c, y, begin * C), logits));
        tess_cross_entropy rows = rows_of_chunk(&part, begin, logits, logprob);
        rows.entropy = entropy != NULL ? entropy + begin : NULL;
        TESS_TRY(c->kernels->cross_entropy(c->stream, &rows));
    }
    return TESS_OK;
}

tess_status tess_head_train(const tess_layer_call *c, void *y, float *logits, bool want_dy, float *logprob)
{
    tess_linear forward = rows_of_logits(&c->block->head, TESS_F32),
                backward = rows_of_logits(&c->block->head, c->dtype);
    int64_t C = forward.n_in, chunk = tess_head_chunk(forward.n_out), begin = 0;
    do { /* once even without tokens: the gradient buffer must be written */
        tess_layer_call part = *c;
        part.T = c->T - begin < chunk ? c->T - begin : chunk;
        void *y_rows = tess_at(c, y, begin * C);
        TESS_TRY(tess_linear_forward_f32(&part, &forward, y_rows, logits));
        tess_cross_entropy rows = rows_of_chunk(&part, begin, logits, logprob);
        rows.dlogits = logits;
        rows.ldd = backward.out_stride;
        TESS_TRY(c->kernels->cross_entropy(c->stream, &rows));
        TESS_TRY(tess_linear_backward_params(&part, &backward, y_rows, logits, begin > 0));
        if (want_dy)
            TESS_TRY(tess_linear_backward_input(&part, &backward, logits, y_rows));
        begin += chunk;
    } while (begin < c->T);
    return TESS_OK;
}
