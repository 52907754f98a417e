#include "nn/layers/layers.h"

int64_t tess_head_chunk(int64_t vocab_size)
{
    return vocab_size <= 16384 ? 1024 : vocab_size <= 65536 ? 512 : 256;
}

tess_status tess_head_forward(const tess_run *run, const tess_linear *head, const void *y, const int32_t *targets,
                              const tess_head_work *work, float *logprob, float *entropy)
{
    int64_t V = head->n_out, chunk = tess_head_chunk(V);
    for (int64_t begin = 0; begin < run->T; begin += chunk) {
        tess_run part = *run;
        part.T = run->T - begin < chunk ? run->T - begin : chunk;
        TESS_TRY(tess_linear_forward(&part, head, tess_at(run, y, begin * head->n_in), work->logits, TESS_F32));
        TESS_TRY(run->kernels->cross_entropy(run->stream, work->logits, V, targets + begin, logprob + begin,
                                             entropy != NULL ? entropy + begin : NULL, NULL, V, part.T, V, run->dtype));
    }
    return TESS_OK;
}

tess_status tess_head_train(const tess_run *run, const tess_linear *head, void *y, const int32_t *targets,
                            const tess_head_work *work, bool want_dy, float *logprob)
{
    int64_t V = head->n_out, chunk = tess_head_chunk(V), begin = 0;
    do { /* once even without tokens: the gradient buffer must be written */
        tess_run part = *run;
        part.T = run->T - begin < chunk ? run->T - begin : chunk;
        void *rows = tess_at(run, y, begin * head->n_in);
        TESS_TRY(tess_linear_forward(&part, head, rows, work->logits, TESS_F32));
        TESS_TRY(run->kernels->cross_entropy(run->stream, work->logits, V, targets + begin, logprob + begin, NULL,
                                             work->dlogits, V, part.T, V, run->dtype));
        TESS_TRY(tess_linear_backward_params(&part, head, rows, work->dlogits, begin > 0));
        if (want_dy)
            TESS_TRY(tess_linear_backward_input(&part, head, work->dlogits, rows, run->dtype, false));
        begin += chunk;
    } while (begin < run->T);
    return TESS_OK;
}
