/* Loss scaling: the gradient of the loss is multiplied by a power of two before backward, so that gradients in
 * float16 neither vanish nor overflow. The update divides it out again. A power of two changes no mantissa bit of a
 * float32 or bfloat16 gradient.
 *
 * training.loss_scale=0 finds the factor as torch.amp.GradScaler does. A step whose gradient is not finite is
 * skipped and halves the factor; training.loss_scale_interval steps without one double it. With
 * training.loss_scale_hysteresis above 1 it works as in DeepSpeed: the first overflows are skipped without halving
 * the factor. */
#ifndef TESS_ENGINE_LOSS_SCALE_H
#define TESS_ENGINE_LOSS_SCALE_H

#include "nn/model.h"
#include "config/config.h"

typedef struct tess_loss_scaler {
    double scale;
    int64_t n_finite;  /* steps since the scale last changed, or since a step was skipped */
    int64_t n_endured; /* skipped steps that did not change the scale, since hysteresis last started */
} tess_loss_scaler;

typedef struct tess_loss_scale_rule {
    int64_t interval, hysteresis;
    bool in_a_row; /* true: a finite step restarts hysteresis; false: growth of the scale does */
    double least;
} tess_loss_scale_rule;

/* The scaler of a run's first step. */
tess_loss_scaler tess_loss_scaler_of(const tess_config *config);
/* Returns the scaler after a step. It follows torch.amp.GradScaler.update, with growth 2 and backoff 0.5; with
 * hysteresis and a least scale it follows deepspeed's DynamicLossScaler.update_scale. Pure function. */
tess_loss_scaler tess_loss_scaler_next(tess_loss_scaler scaler, const tess_loss_scale_rule *rule, bool overflow);

/* Sets the next step's scale, and skips a step whose gradient has overflowed.
 * TESS_E_NOT_FINITE: the gradient has overflowed at the least scale */
struct tess_engine;
struct tess_engine_report;
tess_status tess_loss_scale_step(struct tess_engine *engine, struct tess_engine_report *report);

/* A loss times the scale of `scaler`, which is read when rows are graded. */
typedef struct tess_scaled_loss {
    tess_loss_scaler scaler;
    const tess_token_loss *inner; /* NULL: the sum of -log p(target) */
    tess_token_loss outer;
} tess_scaled_loss;

/* Returns the scaled form of `inner` (NULL: the sum of -log p(target)). It is stored in `scaled` and valid until the
 * next call. */
const tess_token_loss *tess_loss_scaled(tess_scaled_loss *scaled, const tess_token_loss *inner);
/* Whether a loss is the scaled sum of -log p(target). For such a loss each row counts by itself, however many rows
 * are graded together. */
bool tess_loss_is_text(const tess_token_loss *loss);

#endif
