#include <string.h>

#include "device/device.h"
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

/* The call on a chunk of rows from `begin` on. */
static tess_layer_call chunk_of(const tess_layer_call *c, int64_t begin)
{
    tess_layer_call part = *c;
    int64_t chunk = tess_head_chunk(c->block->head.n_out);
    part.T = c->T - begin < chunk ? c->T - begin : chunk;
    return part;
}

/* Its logits against their targets. */
static tess_cross_entropy rows_of_chunk(const tess_layer_call *part, int64_t begin, const float *logits,
                                        float inv_temperature, float *logprob)
{
    int64_t V = part->block->head.n_out;
    return (tess_cross_entropy){.n = part->T,
                                .V = V,
                                .logits = logits,
                                .ld = tess_head_row(V),
                                .targets = part->values.targets + begin,
                                .inv_temperature = inv_temperature,
                                .logprob = logprob + begin,
                                .dtype = part->dtype};
}

tess_status tess_head_forward(const tess_layer_call *c, const void *y, float *logits, float inv_temperature,
                              float *logprob, float *entropy)
{
    tess_linear forward = rows_of_logits(&c->block->head, TESS_F32);
    for (int64_t begin = 0; begin < c->T;) {
        tess_layer_call part = chunk_of(c, begin);
        TESS_TRY(tess_linear_forward_f32(&part, &forward, tess_at(c, y, begin * forward.n_in), logits));
        tess_cross_entropy rows = rows_of_chunk(&part, begin, logits, inv_temperature, logprob);
        rows.entropy = entropy != NULL ? entropy + begin : NULL;
        TESS_TRY(c->kernels->cross_entropy(c->stream, &rows));
        begin += part.T;
    }
    return TESS_OK;
}

/* The loss's derivatives for n rows from `begin` on. The one place where values of the head meet the host. */
static tess_status grade(const tess_layer_call *c, const tess_token_loss *loss, const tess_head_work *work,
                         int64_t begin, int64_t n, const float *logprob)
{
    size_t bytes = (size_t)n * sizeof(float);
    float *shown[2] = {work->graded, work->graded + n}, *said[2] = {work->graded + 2 * n, work->graded + 3 * n};
    if (n == 0)
        return TESS_OK;
    TESS_TRY(tess_fetch(c->stream, shown[0], logprob + begin, bytes));
    TESS_TRY(tess_fetch(c->stream, shown[1], work->entropy + begin, bytes));
    memset(said[0], 0, 2 * bytes);
    TESS_TRY_CTX(loss->grade(loss->self, begin, n, shown[0], shown[1], said[0], said[1]),
                 "token loss: rows %lld to %lld", (long long)begin, (long long)(begin + n - 1));
    TESS_TRY(tess_upload(c->stream, work->dlogprob + begin, said[0], bytes));
    return tess_upload(c->stream, work->dentropy + begin, said[1], bytes);
}

/* rows become those of `loss`. A loss that grades chunk by chunk does so here, from logprob and entropy. */
static tess_status apply_loss(const tess_layer_call *part, const tess_token_loss *loss, const tess_head_work *work,
                              int64_t begin, const float *logprob, tess_cross_entropy *rows)
{
    if (!loss->whole) {
        rows->entropy = work->entropy + begin;
        TESS_TRY(part->kernels->cross_entropy(part->stream, rows));
        TESS_TRY(grade(part, loss, work, begin, part->T, logprob));
        rows->entropy = NULL;
    }
    rows->dlogprob = work->dlogprob + begin;
    rows->dentropy = work->dentropy + begin;
    return TESS_OK;
}

/* The gradient of a chunk's logits, in their place. */
static tess_status train_rows(const tess_layer_call *part, const tess_token_loss *loss, const tess_head_work *work,
                              int64_t begin, int64_t ldd, float *logprob)
{
    float inv_temperature = loss != NULL ? loss->inv_temperature : 1;
    tess_cross_entropy rows = rows_of_chunk(part, begin, work->logits, inv_temperature, logprob);
    if (loss != NULL)
        TESS_TRY(apply_loss(part, loss, work, begin, logprob, &rows));
    rows.dlogits = work->logits;
    rows.ldd = ldd;
    return part->kernels->cross_entropy(part->stream, &rows);
}

tess_status tess_head_train(const tess_layer_call *c, const tess_token_loss *loss, const tess_head_work *work, void *y,
                            bool want_dy, float *logprob)
{
    tess_linear forward = rows_of_logits(&c->block->head, TESS_F32),
                backward = rows_of_logits(&c->block->head, c->dtype);
    if (loss != NULL && loss->whole) {
        TESS_TRY(tess_head_forward(c, y, work->logits, loss->inv_temperature, logprob, work->entropy));
        TESS_TRY(grade(c, loss, work, 0, c->T, logprob));
    }
    int64_t begin = 0;
    do { /* once even without tokens: the gradient buffer must be written */
        tess_layer_call part = chunk_of(c, begin);
        void *rows = tess_at(c, y, begin * forward.n_in);
        TESS_TRY(tess_linear_forward_f32(&part, &forward, rows, work->logits));
        TESS_TRY(train_rows(&part, loss, work, begin, backward.out_stride, logprob));
        TESS_TRY(tess_linear_backward_params(&part, &backward, rows, work->logits, begin > 0));
        if (want_dy)
            TESS_TRY(tess_linear_backward_input(&part, &backward, work->logits, rows));
        begin += part.T;
    } while (begin < c->T);
    return TESS_OK;
}
