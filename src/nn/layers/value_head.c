/* A value head computes a value for each row: a linear map of the final norm's output to one number. It is the
 * model's only head, or stands next to a language model's head, whose product runs between the two calls of
 * training. All values of a micro-batch take only as much memory as one column of logits, so they exist at once. */
#include <string.h>

#include "device/device.h"
#include "nn/layers/model_ends.h"
#include "nn/layers/layers.h"

static const tess_linear *value_of(const tess_layer_call *c)
{
    const tess_head_params *p = c->own;
    return &p->value;
}

tess_status tess_value_forward(const tess_layer_call *c, const void *y, float *value)
{
    return tess_linear_own_forward(c, value_of(c), y, value, TESS_F32);
}

/* Calls the loss with the values. Writes its derivatives, in the compute dtype, to work->dvalue. */
static tess_status grade(const tess_layer_call *c, const tess_token_loss *loss, const tess_head_tensors *work,
                         const float *value)
{
    const size_t bytes = (size_t)c->T * sizeof(float);
    float *shown = c->graded, *said = c->graded + c->T;
    TESS_TRY(tess_fetch(c->stream, shown, value, bytes));
    memset(said, 0, bytes);
    TESS_TRY_CTX(loss->grade_values(loss->self, c->T, shown, said), "token loss: values");
    TESS_TRY(tess_upload(c->stream, work->dlogprob, said, bytes));
    return c->kernels->convert(
        c->stream,
        &(tess_convert_args){.x = work->dlogprob, .from = TESS_F32, .y = work->dvalue, .to = c->dtype, .n = c->T});
}

tess_status tess_value_train(const tess_layer_call *c, const tess_token_loss *loss, const tess_head_tensors *work,
                             const void *y, float *value)
{
    TESS_TRY(tess_value_forward(c, y, value));
    if (c->T > 0)
        TESS_TRY(grade(c, loss, work, value));
    /* Called even without tokens: the gradient buffer must be written. */
    return tess_linear_own_backward_params(c, value_of(c), y, work->dvalue, false);
}

tess_status tess_value_backward(const tess_layer_call *c, const tess_head_tensors *work, void *dy, void *aside)
{
    TESS_TRY(tess_linear_own_backward_input(c, value_of(c), work->dvalue, aside != NULL ? aside : dy));
    if (aside == NULL)
        return TESS_OK;
    return c->kernels->add(
        c->stream,
        &(tess_add_args){.a = dy, .b = aside, .y = dy, .n = c->T * c->block->hidden_size, .dtype = c->dtype});
}
