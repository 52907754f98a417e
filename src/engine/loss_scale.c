#include "engine/loss_scale.h"

#include <math.h>
#include <stdio.h>

#include "engine/engine.h"

tess_loss_scaler tess_loss_scaler_of(const tess_config *c)
{
    return (tess_loss_scaler){.scale =
                                  c->training.loss_scale > 0 ? c->training.loss_scale : c->training.loss_scale_init};
}

static tess_loss_scale_rule rule_of(const tess_config *c)
{
    return (tess_loss_scale_rule){.interval = c->training.loss_scale_interval,
                                  .hysteresis = c->training.loss_scale_hysteresis,
                                  .in_a_row = c->training.loss_scale_in_a_row,
                                  .least = c->training.loss_scale_min > 0 ? c->training.loss_scale_min : 0x1p-40};
}

tess_loss_scaler tess_loss_scaler_next(tess_loss_scaler s, const tess_loss_scale_rule *rule, bool overflow)
{
    bool endures = s.n_endured + 1 < rule->hysteresis;
    if (overflow && endures)
        return (tess_loss_scaler){.scale = s.scale, .n_endured = s.n_endured + 1};
    if (overflow)
        return (tess_loss_scaler){.scale = fmax(s.scale / 2, rule->least), .n_endured = s.n_endured};
    if (rule->in_a_row)
        s.n_endured = 0;
    if (s.n_finite + 1 < rule->interval)
        return (tess_loss_scaler){s.scale, s.n_finite + 1, s.n_endured};
    return (tess_loss_scaler){.scale = isfinite((float)(s.scale * 2)) ? s.scale * 2 : s.scale};
}

tess_status tess_loss_scale_step(tess_engine *e, tess_engine_report *report)
{
    const tess_config *c = e->config;
    const tess_loss_scale_rule rule = rule_of(c);
    const tess_loss_scaler before = e->scaled.scaler;
    bool overflow = isfinite(report->loss) && !isfinite(report->grad_norm);
    report->loss_scale = before.scale;
    if (c->training.loss_scale > 0 || !isfinite(report->loss))
        return TESS_OK;
    e->scaled.scaler = tess_loss_scaler_next(before, &rule, overflow);
    if (!overflow)
        return TESS_OK;
    bool endured = e->scaled.scaler.n_endured > before.n_endured;
    TESS_CHECK(endured || e->scaled.scaler.scale < before.scale, TESS_E_NOT_FINITE,
               "step %lld: the gradient is not finite with a loss scale of %g, the least (training.loss_scale_min): it "
               "is no overflow of float16; see which value is bad with training.mixed_precision_reduce=float32 "
               "training.loss_scale=1",
               (long long)e->step + 1, report->loss_scale);
    report->skipped = true;
    e->restarts.optimizer++; /* the step counts of bias correction exclude skipped steps */
    snprintf(report->note, sizeof(report->note),
             "step %lld: gradients overflow with a loss scale of %g; its update is skipped, and the scale %s %g",
             (long long)e->step + 1, report->loss_scale, endured ? "stays" : "becomes", e->scaled.scaler.scale);
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
        dlogprob[i] = -(float)s->scaler.scale;
    return TESS_OK;
}

static tess_status grade(void *self, int64_t begin, int64_t n, const float *logprob, const float *entropy,
                         float *dlogprob, float *dentropy)
{
    const tess_scaled_loss *s = self;
    TESS_TRY(s->inner->grade(s->inner->self, begin, n, logprob, entropy, dlogprob, dentropy));
    multiply(dlogprob, n, s->scaler.scale);
    multiply(dentropy, n, s->scaler.scale);
    return TESS_OK;
}

static tess_status grade_values(void *self, int64_t n, const float *value, float *dvalue)
{
    const tess_scaled_loss *s = self;
    TESS_TRY(s->inner->grade_values(s->inner->self, n, value, dvalue));
    multiply(dvalue, n, s->scaler.scale);
    return TESS_OK;
}

const tess_token_loss *tess_loss_scaled(tess_scaled_loss *s, const tess_token_loss *inner)
{
    s->inner = inner;
    s->outer =
        (tess_token_loss){.self = s, .inv_temperature = 1, .routers = (float)s->scaler.scale, .grade = grade_text};
    if (inner != NULL)
        s->outer = (tess_token_loss){.self = s,
                                     .inv_temperature = inner->inv_temperature,
                                     .routers = inner->routers * (float)s->scaler.scale,
                                     .whole = inner->whole,
                                     .grade = inner->grade != NULL ? grade : NULL,
                                     .grade_values = inner->grade_values != NULL ? grade_values : NULL};
    return &s->outer;
}

bool tess_loss_is_text(const tess_token_loss *loss)
{
    return loss->grade == grade_text;
}
