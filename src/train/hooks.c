/* The points that nn names, filled with fsdp's units. */
#include "train/trainer_impl.h"

static tess_status pre_forward(void *self, int unit, const void *const **w)
{
    tess_trainer *t = self;
    int first, n;
    TESS_TRY(tess_unit_pre_forward(t->units[unit]));
    tess_model_unit_params(t->model, unit, &first, &n);
    for (int i = 0; i < n; i++)
        t->w[first + i] = tess_unit_param(t->units[unit], i);
    *w = t->w + first;
    return TESS_OK;
}

static tess_status post_forward(void *self, int unit)
{
    return tess_unit_post_forward(((tess_trainer *)self)->units[unit]);
}

static tess_status pre_backward(void *self, int unit, const void *const **w, float *const **dw)
{
    tess_trainer *t = self;
    int first, n;
    TESS_TRY(tess_unit_pre_backward(t->units[unit]));
    tess_model_unit_params(t->model, unit, &first, &n);
    for (int i = 0; i < n; i++) {
        t->w[first + i] = tess_unit_param(t->units[unit], i);
        t->dw[first + i] = tess_unit_grad(t->units[unit], i);
    }
    *w = t->w + first;
    *dw = t->dw + first;
    return TESS_OK;
}

static tess_status post_backward(void *self, int unit)
{
    return tess_unit_post_backward(((tess_trainer *)self)->units[unit]);
}

tess_hooks tess_trainer_hooks(tess_trainer *t)
{
    return (tess_hooks){t, pre_forward, post_forward, pre_backward, post_backward};
}
