/* AdamW over flat float32 shards, and learning-rate schedules. Element-wise: no order of summation, no communication.
 */
#ifndef TESSERA_OPTIM_H
#define TESSERA_OPTIM_H

#include "tessera/fsdp.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tess_adamw_options {
    float beta1, beta2, eps, weight_decay;
} tess_adamw_options;

typedef struct tess_adamw tess_adamw;

/* Moments for every trainable shard of `fsdp` (after its materialize), zeroed, in the optimizer pool. `fsdp` is
 * borrowed and must outlive *adamw. TESS_E_INVALID names the option that is out of range; TESS_E_NOMEM. */
TESS_API tess_status tess_adamw_create(tess_fsdp *fsdp, const tess_adamw_options *options, tess_adamw **adamw);
TESS_API void tess_adamw_destroy(tess_adamw **adamw);

/* One update with gradient grad * grad_scale (1 / target tokens, times the clipping factor), decoupled weight decay
 * (Loshchilov & Hutter, arXiv:1711.05101, as torch.optim.AdamW). `step` counts from 1 (bias correction). Then tells
 * fsdp that the parameters changed. Collective because of that last part. TESS_E_INVALID: between tess_fsdp_step_begin
 * and step_end, or there are no gradients. */
TESS_API tess_status tess_adamw_step(tess_adamw *adamw, int64_t step, float lr, float grad_scale);

/* Moments of shard `index` (as tess_fsdp_shard numbers them; rows as its `master`), for checkpoints; NULL when frozen.
 * They belong to `adamw`. */
TESS_API void tess_adamw_moments(tess_adamw *adamw, int index, float **m, float **v);

typedef enum tess_schedule_kind {
    TESS_SCHEDULE_CONSTANT,
    TESS_SCHEDULE_LINEAR,
    TESS_SCHEDULE_COSINE,
    TESS_SCHEDULE_WSD /* warm-up, stable, decay */
} tess_schedule_kind;

typedef struct tess_schedule {
    tess_schedule_kind kind;
    double lr, min_lr_factor;    /* decays to lr * min_lr_factor */
    int64_t warmup_steps, steps; /* steps: of the whole run */
    int64_t decay_steps;         /* WSD: length of the last, linear phase */
} tess_schedule;

/* Learning rate of step 1, 2, ... steps. Pure. */
TESS_API double tess_schedule_lr(const tess_schedule *schedule, int64_t step);

#ifdef __cplusplus
}
#endif

#endif
