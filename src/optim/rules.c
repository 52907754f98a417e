/* Updates a block of parameters by each rule, in float32 without FMA and in torch's order of operations. */
#include "optim/optim_impl.h"

/* Calls the device's AdamW kernel on this thread: a block is too small for several threads. l2: weight decay that is
 * added to the gradient, as in Adam. */
static tess_status adam(const optim_update *u, float decay, float l2, int n, float *p, const float *g, float *m,
                        float *v)
{
    float sum[OPTIM_BLOCK];
    tess_adamw_update call = u->call;
    call.n = n;
    call.p = p;
    call.m = m;
    call.v = v;
    call.g = g;
    call.weight_decay = decay;
    if (l2 > 0) {
        for (int i = 0; i < n; i++)
            sum[i] = g[i] * call.grad_scale + l2 * p[i];
        call.g = sum;
        call.grad_scale = 1;
    }
    return tess_stream_kernels(u->optimizer->stream)->adamw(u->optimizer->stream, &call);
}

/* Updates a block by SGD. momentum NULL: no momentum. */
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

tess_status optim_rule_update(const optim_pass *pass, int64_t begin, int n)
{
    const optim_update *u = pass->u;
    const tess_span *span = pass->span;
    float moment[OPTIM_MOMENTS][OPTIM_BLOCK], *p = span->param + begin;
    const float *g = span->grad + begin;
    float decay = span->decay ? u->optimizer->options.weight_decay : 0;
    for (int k = 0; k < pass->param->n_moments; k++)
        TESS_TRY(optim_moment_load(pass, k, begin, n, moment[k]));
    bool adds_decay = pass->param->rule == OPTIM_ADAM;
    if (pass->param->rule == OPTIM_SGD)
        sgd(u, decay, n, p, g, pass->param->n_moments > 0 ? moment[0] : NULL);
    else
        TESS_TRY(adam(u, adds_decay ? 0 : decay, adds_decay ? decay : 0, n, p, g, moment[0], moment[1]));
    for (int k = 0; k < pass->param->n_moments; k++)
        optim_moment_store(pass, k, begin, n, moment[k]);
    return TESS_OK;
}
