/* Hooks for weights that this process holds whole: they gather nothing and reduce nothing. */
#include "nn/model.h"
#include "base/mem/scoped.h"

typedef struct whole {
    const tess_model *model;
    const void *const *w;
    float *const *dw;
    float *none[]; /* gradients of frozen parameters: all NULL */
} whole;

static tess_status pre_forward(void *self, int unit, const void *const **w)
{
    const whole *all = self;
    int first, n;
    tess_model_unit_params(all->model, unit, &first, &n);
    *w = all->w + first;
    return TESS_OK;
}

static tess_status pre_backward(void *self, int unit, const void *const **w, float *const **dw)
{
    const whole *all = self;
    TESS_TRY(pre_forward(self, unit, w));
    *dw = all->dw + (*w - all->w);
    return TESS_OK;
}

static tess_status post(TESS_UNUSED void *self, TESS_UNUSED int unit)
{
    return TESS_OK;
}

tess_status tess_static_hooks(tess_mem *mem, const tess_model *model, const void *const *w, float *const *dw,
                              tess_hooks *hooks)
{
    void *block = NULL;
    size_t n_params = dw == NULL ? (size_t)tess_model_n_params(model) : 0;
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(whole) + n_params * sizeof(float *), "hooks", &block));
    whole *all = block;
    all->model = model;
    all->w = w;
    all->dw = dw != NULL ? dw : all->none;
    *hooks = (tess_hooks){all, pre_forward, post, pre_backward, post};
    return TESS_OK;
}

void tess_static_hooks_free(tess_hooks *hooks)
{
    tess_mem_drop(&hooks->self);
}
