/* What a step makes of a block, in float32 without FMA and in torch's order of operations. */
#include <math.h>

#include "optim/optim_impl.h"

/* AdamW as device/adamw.h states it. l2: weight decay that is added to the gradient, as Adam's. */
static void adam(const adamw_step *a, float l2, int n, float *p, const float *g, float *m, float *v)
{
    for (int i = 0; i < n; i++) {
        float grad = g[i] * a->grad_scale + l2 * p[i];
        m[i] = m[i] + a->one_minus_beta1 * (grad - m[i]);
        v[i] = v[i] * a->beta2 + a->one_minus_beta2 * grad * grad;
        p[i] = p[i] * a->decay - a->step_size * m[i] / (sqrtf(v[i]) / a->sqrt_bias2 + a->eps);
    }
}

/* momentum NULL: none. */
static void sgd(const optim_update *u, float l2, int n, float *p, const float *g, float *momentum)
{
    const tess_optimizer_options *o = &u->optimizer->options;
    float scale = u->call.grad_scale, lr = u->lr, mu = o->momentum;
    for (int i = 0; i < n; i++) {
        float d = g[i] * scale + l2 * p[i];
        if (momentum != NULL) {
            momentum[i] = mu * momentum[i] + d;
            d = o->nesterov ? d + mu * momentum[i] : momentum[i];
        }
        p[i] = p[i] - lr * d;
    }
}

void optim_rule_update(const optim_pass *pass, int64_t begin, int n)
{
    const optim_update *u = pass->u;
    const tess_span *span = pass->span;
    float moment[OPTIM_MOMENTS][OPTIM_BLOCK], *p = span->param + begin;
    const float *g = span->grad + begin;
    float decay = span->decay ? u->optimizer->options.weight_decay : 0;
    for (int k = 0; k < pass->param->n_moments; k++)
        optim_moment_load(pass, k, begin, n, moment[k]);
    if (pass->param->rule == OPTIM_SGD)
        sgd(u, decay, n, p, g, pass->param->n_moments > 0 ? moment[0] : NULL);
    else if (pass->param->rule == OPTIM_ADAM)
        adam(&u->constants[0], decay, n, p, g, moment[0], moment[1]);
    else
        adam(&u->constants[span->decay], 0, n, p, g, moment[0], moment[1]);
    for (int k = 0; k < pass->param->n_moments; k++)
        optim_moment_store(pass, k, begin, n, moment[k]);
}
