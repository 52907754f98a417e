#include "nn/layers/layers.h"

int64_t tess_head_chunk(int64_t vocab_size)
{
    return vocab_size <= 16384 ? 1024 : vocab_size <= 65536 ? 512 : 256;
}

int64_t tess_head_row(int64_t vocab_size)
{
    return (vocab_size + 31) / 32 * 32;
}

/* The head with rows of `dtype` that start where rows of float32 logits do. */
static tess_linear rows_of_logits(const tess_linear *head, tess_dtype dtype)
{
    tess_linear rows = *head;
    rows.out_stride = tess_head_row(head->n_out) * (int64_t)(sizeof(float) / tess_dtype_size(dtype));
    return rows;
}

tess_status tess_head_forward(const tess_run *run, const tess_linear *head, const void *y, const int32_t *targets,
                              const tess_head_work *work, float *logprob, float *entropy)
{
    tess_linear forward = rows_of_logits(head, TESS_F32);
    int64_t V = head->n_out, stride = forward.out_stride, chunk = tess_head_chunk(V);
    for (int64_t begin = 0; begin < run->T; begin += chunk) {
        tess_run part = *run;
        part.T = run->T - begin < chunk ? run->T - begin : chunk;
        TESS_TRY(tess_linear_forward(&part, &forward, tess_at(run, y, begin * head->n_in), work->logits, TESS_F32));
        TESS_TRY(run->kernels->cross_entropy(run->stream, work->logits, stride, targets + begin, logprob + begin,
                                             entropy != NULL ? entropy + begin : NULL, NULL, stride, part.T, V,
                                             run->dtype));
    }
    return TESS_OK;
}

tess_status tess_head_train(const tess_run *run, const tess_linear *head, void *y, const int32_t *targets,
                            const tess_head_work *work, bool want_dy, float *logprob)
{
    tess_linear forward = rows_of_logits(head, TESS_F32), backward = rows_of_logits(head, run->dtype);
    int64_t V = head->n_out, chunk = tess_head_chunk(V), begin = 0;
    do { /* once even without tokens: the gradient buffer must be written */
        tess_run part = *run;
        part.T = run->T - begin < chunk ? run->T - begin : chunk;
        void *rows = tess_at(run, y, begin * head->n_in);
        TESS_TRY(tess_linear_forward(&part, &forward, rows, work->logits, TESS_F32));
        TESS_TRY(run->kernels->cross_entropy(run->stream, work->logits, forward.out_stride, targets + begin,
                                             logprob + begin, NULL, work->logits, backward.out_stride, part.T, V,
                                             run->dtype));
        TESS_TRY(tess_linear_backward_params(&part, &backward, rows, work->logits, begin > 0));
        if (want_dy)
            TESS_TRY(tess_linear_backward_input(&part, &backward, work->logits, rows));
        begin += chunk;
    } while (begin < run->T);
    return TESS_OK;
}
