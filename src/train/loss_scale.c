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

static void multiply(float *x, int64_t n, double factor)
{
    for (int64_t i = 0; i < n; i++)
        x[i] *= (float)factor;
}

static tess_status grade_text(void *self, int64_t begin, int64_t n, const float *logprob, const float *entropy,
                              float *dlogprob, float *dentropy)
{
    const tess_scaled_loss *s = self;
    (void)begin, (void)logprob, (void)entropy, (void)dentropy;
    for (int64_t i = 0; i < n; i++)
        dlogprob[i] = -(float)*s->scale;
    return TESS_OK;
}

static tess_status grade(void *self, int64_t begin, int64_t n, const float *logprob, const float *entropy,
                         float *dlogprob, float *dentropy)
{
    const tess_scaled_loss *s = self;
    TESS_TRY(s->inner->grade(s->inner->self, begin, n, logprob, entropy, dlogprob, dentropy));
    multiply(dlogprob, n, *s->scale);
    multiply(dentropy, n, *s->scale);
    return TESS_OK;
}

static tess_status grade_values(void *self, int64_t n, const float *value, float *dvalue)
{
    const tess_scaled_loss *s = self;
    TESS_TRY(s->inner->grade_values(s->inner->self, n, value, dvalue));
    multiply(dvalue, n, *s->scale);
    return TESS_OK;
}

const tess_token_loss *tess_loss_scaled(tess_scaled_loss *s, const tess_token_loss *inner)
{
    s->inner = inner;
    s->outer = (tess_token_loss){.self = s, .inv_temperature = 1, .grade = grade_text};
    if (inner != NULL)
        s->outer = (tess_token_loss){.self = s,
                                     .inv_temperature = inner->inv_temperature,
                                     .whole = inner->whole,
                                     .grade = inner->grade != NULL ? grade : NULL,
                                     .grade_values = inner->grade_values != NULL ? grade_values : NULL};
    return &s->outer;
}

bool tess_loss_is_text(const tess_token_loss *loss)
{
    return loss->grade == grade_text;
}
