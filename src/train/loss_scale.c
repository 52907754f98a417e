#include "train/loss_scale.h"

#include <math.h>
#include <stdio.h>

#include "train/engine.h"

static const double least_scale = 0x1p-40;

tess_loss_scaler tess_loss_scaler_of(const tess_config *c)
{
    return (tess_loss_scaler){.scale =
                                  c->training.loss_scale > 0 ? c->training.loss_scale : c->training.loss_scale_init};
}

tess_loss_scaler tess_loss_scaler_next(tess_loss_scaler s, int64_t interval, bool overflow)
{
    if (overflow)
        return (tess_loss_scaler){.scale = s.scale / 2};
    if (s.n_finite + 1 < interval)
        return (tess_loss_scaler){s.scale, s.n_finite + 1};
    return (tess_loss_scaler){.scale = isfinite((float)(s.scale * 2)) ? s.scale * 2 : s.scale};
}

tess_status tess_loss_scale_step(tess_engine *e, tess_engine_report *report)
{
    const tess_config *c = e->config;
    bool overflow = isfinite(report->loss) && !isfinite(report->grad_norm);
    report->loss_scale = e->scaler.scale;
    if (c->training.loss_scale > 0 || !isfinite(report->loss))
        return TESS_OK;
    e->scaler = tess_loss_scaler_next(e->scaler, c->training.loss_scale_interval, overflow);
    if (!overflow)
        return TESS_OK;
    TESS_CHECK(e->scaler.scale >= least_scale, TESS_E_NOT_FINITE,
               "step %lld: the gradient is not finite with a loss scale of %g: it is no overflow of float16; see "
               "which value is bad with training.mixed_precision_reduce=float32 training.loss_scale=1",
               (long long)e->step + 1, report->loss_scale);
    report->skipped = true;
    e->optimizer_begin++; /* bias correction counts updates */
    snprintf(report->note, sizeof(report->note),
             "step %lld: gradients overflow with a loss scale of %g; its update is skipped, and the scale becomes %g",
             (long long)e->step + 1, report->loss_scale, e->scaler.scale);
    return TESS_OK;
}

static tess_status grade(void *self, int64_t begin, int64_t n, const float *logprob, const float *entropy,
                         float *dlogprob, float *dentropy)
{
    const double *scale = self;
    (void)begin, (void)logprob, (void)entropy, (void)dentropy;
    for (int64_t i = 0; i < n; i++)
        dlogprob[i] = -(float)*scale;
    return TESS_OK;
}

tess_token_loss tess_scaled_loss(const double *scale)
{
    return (tess_token_loss){.self = (void *)scale, .inv_temperature = 1, .grade = grade};
}
