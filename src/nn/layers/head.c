#include "nn/layers/layers.h"

int64_t tess_head_chunk(int64_t vocab_size)
{
    return vocab_size <= 16384 ? 1024 : vocab_size <= 65536 ? 512 : 256;
}

int64_t tess_head_row(int64_t vocab_size)
{
    return (vocab_size + 31) / 32 * 32;
}

/* The head with rows of logits that start at whole lines. */
static tess_linear aligned(const tess_linear *head)
{
    tess_linear wide = *head;
    wide.out_stride = tess_head_row(head->n_out);
    return wide;
}

tess_status tess_head_forward(const tess_run *run, const tess_linear *head, const void *y, const int32_t *targets,
                              const tess_head_work *work, float *logprob, float *entropy)
{
    tess_linear wide = aligned(head);
    int64_t V = head->n_out, stride = wide.out_stride, chunk = tess_head_chunk(V);
    for (int64_t begin = 0; begin < run->T; begin += chunk) {
        tess_run part = *run;
        part.T = run->T - begin < chunk ? run->T - begin : chunk;
        TESS_TRY(tess_linear_forward(&part, &wide, tess_at(run, y, begin * head->n_in), work->logits, TESS_F32));
        TESS_TRY(run->kernels->cross_entropy(run->stream, work->logits, stride, targets + begin, logprob + begin,
                                             entropy != NULL ? entropy + begin : NULL, NULL, stride, part.T, V,
                                             run->dtype));
    }
    return TESS_OK;
}

tess_status tess_head_train(const tess_run *run, const tess_linear *head, void *y, const int32_t *targets,
                            const tess_head_work *work, bool want_dy, float *logprob)
{
    tess_linear wide = aligned(head);
    int64_t V = head->n_out, stride = wide.out_stride, chunk = tess_head_chunk(V), begin = 0;
    do { /* once even without tokens: the gradient buffer must be written */
        tess_run part = *run;
        part.T = run->T - begin < chunk ? run->T - begin : chunk;
        void *rows = tess_at(run, y, begin * head->n_in);
        TESS_TRY(tess_linear_forward(&part, &wide, rows, work->logits, TESS_F32));
        TESS_TRY(run->kernels->cross_entropy(run->stream, work->logits, stride, targets + begin, logprob + begin, NULL,
                                             work->dlogits, stride, part.T, V, run->dtype));
        TESS_TRY(tess_linear_backward_params(&part, &wide, rows, work->dlogits, begin > 0));
        if (want_dy)
            TESS_TRY(tess_linear_backward_input(&part, &wide, work->dlogits, rows));
        begin += chunk;
    } while (begin < run->T);
    return TESS_OK;
}
