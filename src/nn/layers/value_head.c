/* A head of one output: the value of each row. All values of a micro-batch take as much memory as a column of logits,
 * so they exist at once; gradients run a chunk of rows at a time, as a language model's do. */
#include "nn/layers/layers.h"

tess_status tess_value_forward(const tess_layer_call *c, const void *y, float *value)
{
    return tess_linear_own_forward(c, &c->block->head, y, value, TESS_F32);
}

tess_status tess_value_train(const tess_layer_call *c, const tess_token_loss *loss, const tess_head_work *work, void *y,
                             bool want_dy, float *value)
{
    const tess_linear *head = &c->block->head;
    int64_t chunk = tess_head_chunk(head->n_out), begin = 0;
    TESS_TRY(tess_value_forward(c, y, value));
    if (c->T > 0)
        TESS_TRY(tess_head_grade(c, loss, work, 0, c->T, value));
    do { /* once even without tokens: the gradient buffer must be written */
        tess_layer_call part = *c;
        part.T = c->T - begin < chunk ? c->T - begin : chunk;
        void *rows = tess_at(c, y, begin * head->n_in);
        TESS_TRY(c->kernels->convert(c->stream, work->dlogprob + begin, TESS_F32, work->logits, c->dtype, part.T));
        TESS_TRY(tess_linear_backward_params(&part, head, rows, work->logits, begin > 0));
        if (want_dy)
            TESS_TRY(tess_linear_backward_input(&part, head, work->logits, rows));
        begin += part.T;
    } while (begin < c->T);
    return TESS_OK;
}
