/* Loss scaling: the gradient of the loss is multiplied by a power of two before backward, so that gradients which
 * travel in float16 neither vanish nor overflow, and divided again in the update. A power of two changes no bit of a
 * float32 or bfloat16 gradient.
 *
 * training.loss_scale=0 finds the factor as torch.amp.GradScaler does: a step whose gradient is not finite is skipped
 * and halves it; training.loss_scale_interval steps without one double it. With training.loss_scale_hysteresis above 1
 * it does as DeepSpeed: the first of such steps are skipped and halve nothing. */
#ifndef TESS_ENGINE_LOSS_SCALE_H
#define TESS_ENGINE_LOSS_SCALE_H

#include "nn/model.h"
#include "config/config.h"

typedef struct tess_loss_scaler {
    double scale;
    int64_t n_finite;  /* steps since the scale last changed, or one was skipped */
    int64_t n_endured; /* steps that were skipped with no change of the scale, since hysteresis began anew */
} tess_loss_scaler;

typedef struct tess_loss_scale_rule {
    int64_t interval, hysteresis;
    bool in_a_row; /* a finite step begins hysteresis anew; else a growth of the scale does */
    double least;
} tess_loss_scale_rule;

/* The scaler of a run's first step. */
tess_loss_scaler tess_loss_scaler_of(const tess_config *config);
tess_loss_scale_rule tess_loss_scale_rule_of(const tess_config *config);
/* After a step: torch.amp.GradScaler.update, with its growth of 2 and backoff of 0.5; with hysteresis and a least
 * scale, deepspeed's DynamicLossScaler.update_scale. Pure. */
tess_loss_scaler tess_loss_scaler_next(tess_loss_scaler scaler, const tess_loss_scale_rule *rule, bool overflow);

/* Finds the next step's scale and skips a step whose gradient has overflowed. TESS_E_NOT_FINITE: the scale is the
 * least already. */
struct tess_engine;
struct tess_engine_report;
tess_status tess_loss_scale_step(struct tess_engine *engine, struct tess_engine_report *report);

/* A loss times *scale, which is read when rows are graded. */
typedef struct tess_scaled_loss {
    const double *scale;
    const tess_token_loss *inner; /* NULL: the sum of -log p(target) */
    tess_token_loss outer;
} tess_scaled_loss;

/* The scaled form of `inner` (NULL: the sum of -log p(target)); borrows `scaled`, which holds it until the next call.
 */
const tess_token_loss *tess_loss_scaled(tess_scaled_loss *scaled, const tess_token_loss *inner);
/* Whether a loss is the sum of -log p(target) with a scale: rows count alone, however many are graded together. */
bool tess_loss_is_text(const tess_token_loss *loss);

#endif
