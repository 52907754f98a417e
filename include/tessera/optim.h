/* AdamW over spans of float32 elements, and learning-rate schedules. Element-wise: no order of summation, no
 * communication.
 */
#ifndef TESSERA_OPTIM_H
#define TESSERA_OPTIM_H

#include "tessera/memory.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tess_adamw_options {
    float beta1, beta2, eps, weight_decay;
} tess_adamw_options;

typedef struct tess_adamw tess_adamw;

/* The elements of a tensor that this rank updates. */
typedef struct tess_span {
    const char *name;  /* for messages */
    int64_t n;         /* elements */
    bool decay;        /* weight decay applies */
    float *param;      /* (n); NULL: frozen, with no moments and no update */
    const float *grad; /* (n), read by updates only; NULL: not there yet */
    void *copy;        /* (copy_n) of copy_dtype, also gets elements copy_begin .. copy_begin + copy_n; NULL: none */
    tess_dtype copy_dtype;
    int64_t copy_begin, copy_n;
} tess_span;

/* Moments for `spans`, in the optimizer pool of `mem` (borrowed until destroy): zeroed, or as an earlier process of the
 * job left them. The call does not store the spans. TESS_E_INVALID names the option that is out of range; TESS_E_NOMEM.
 * For shards of a tess_fsdp use tess_fsdp_adamw_create. */
TESS_API tess_status tess_adamw_create(tess_mem *mem, const tess_span *spans, int n_spans,
                                       const tess_adamw_options *options, tess_adamw **adamw);
TESS_API void tess_adamw_destroy(tess_adamw **adamw);

/* Updates run with `n_threads` threads, the caller's included; before this call with one, or in case of
 * tess_fsdp_adamw_create with the runtime's. The bits do not depend on it. TESS_E_INVALID: below 1; TESS_E_NOMEM. */
TESS_API tess_status tess_adamw_set_threads(tess_adamw *adamw, int n_threads);

/* One update with gradient grad * grad_scale (1 / target tokens, times the clipping factor), decoupled weight decay
 * (Loshchilov & Hutter, arXiv:1711.05101, as torch.optim.AdamW). `spans` must match those of create in number, order
 * and `n`; all else may differ. `step` counts from 1 (bias correction). TESS_E_INVALID: a span has no gradient. For
 * shards of a tess_fsdp use tess_fsdp_adamw_step. */
TESS_API tess_status tess_adamw_step(tess_adamw *adamw, const tess_span *spans, int64_t step, float lr,
                                     float grad_scale);

/* Moments of span `index`, for checkpoints; NULL when frozen. They belong to `adamw`. */
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
    int64_t warmup_steps, steps; /* steps: length of the whole run */
    int64_t decay_steps;         /* WSD: length of the last, linear phase */
} tess_schedule;

/* Learning rate of step 1, 2, ... steps. Pure. */
TESS_API double tess_schedule_lr(const tess_schedule *schedule, int64_t step);

#ifdef __cplusplus
}
#endif

#endif
