/* Optimizers over spans of float32 elements, and learning-rate schedules. The order of operations on an element, on a
 * block of a state and on a matrix is fixed, and none depends on how spans are cut: the same bits on any number of
 * ranks.
 */
#ifndef TESSERA_OPTIM_H
#define TESSERA_OPTIM_H

#include "tessera/memory.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tess_optimizer_kind {
    TESS_ADAMW,      /* Loshchilov & Hutter, arXiv:1711.05101, as torch.optim.AdamW */
    TESS_ADAM,       /* Kingma & Ba, arXiv:1412.6980, as torch.optim.Adam: weight decay is added to the gradient */
    TESS_SGD,        /* like torch.optim.SGD, with momentum, Nesterov's or not: weight decay is added to the gradient */
    TESS_MUON,       /* Jordan et al. 2024, as torch.optim.Muon, for hidden matrices; the rest by AdamW */
    TESS_ADAMW_8BIT, /* AdamW whose moments of hidden matrices of 4096 elements or more are 8-bit codes (Dettmers et
                      * al., arXiv:2110.02861), in blocks of TESS_STATE_BLOCK elements of a row; the rest is AdamW */
} tess_optimizer_kind;

/* How far a step of Muon goes, by the sizes of the matrix (R, C). */
typedef enum tess_muon_rate {
    TESS_MUON_MATCH_RMS, /* lr * 0.2 sqrt(max(R, C)): as far as AdamW, so that one lr serves both (arXiv:2502.16982) */
    TESS_MUON_ORIGINAL   /* lr * sqrt(max(1, R / C)) */
} tess_muon_rate;

typedef struct tess_optimizer_options {
    tess_optimizer_kind kind;
    float beta1, beta2, eps; /* constants of AdamW and Adam */
    float weight_decay;
    float momentum; /* momentum of SGD (0: none, and no state) and Muon */
    bool nesterov;
    tess_muon_rate muon_rate;
    tess_dtype state_dtype; /* TESS_F32; TESS_BF16: rounded stochastically, as (seed, name of the span, step, element)
                             * say */
    uint64_t seed;
} tess_optimizer_options;

typedef struct tess_optimizer tess_optimizer;

/* The elements of a tensor that this rank updates. */
typedef struct tess_span {
    const char *name;  /* name for messages and stochastic rounding */
    int64_t n;         /* elements */
    bool decay;        /* weight decay applies */
    bool hidden;       /* a matrix of a layer, (out, in) or (in, out): Muon and 8-bit states are for these */
    tess_shape shape;  /* shape of the whole tensor; n_dims 0: the span is a vector of its own */
    tess_box box;      /* place of these n elements in it, row-major */
    float *param;      /* (n); NULL: frozen, with no state and no update */
    const float *grad; /* (n), read by updates only; NULL: not there yet */
    void *copy;        /* (copy_n) of copy_dtype, also gets elements copy_begin .. copy_begin + copy_n; NULL: none */
    tess_dtype copy_dtype;
    int64_t copy_begin, copy_n;
} tess_span;

/* State for `spans`, in the optimizer pool of `mem` (borrowed until destroy): zeroed, or as an earlier process of the
 * job left it. The call does not store the spans. TESS_E_INVALID names the option that is out of range, or the span
 * whose box cuts a block of an 8-bit state; TESS_E_NOMEM. For shards of a tess_fsdp use tess_fsdp_optimizer_create. */
TESS_API tess_status tess_optimizer_create(tess_mem *mem, const tess_span *spans, int n_spans,
                                           const tess_optimizer_options *options, tess_optimizer **optimizer);
TESS_API void tess_optimizer_destroy(tess_optimizer **optimizer);

/* Updates run with `n_threads` threads, the caller's included; before this call with one, or in case of
 * tess_fsdp_optimizer_create with the runtime's. The bits do not depend on it. TESS_E_INVALID: below 1; TESS_E_NOMEM.
 */
TESS_API tess_status tess_optimizer_set_threads(tess_optimizer *optimizer, int n_threads);

/* One update with gradient grad * grad_scale (1 / target tokens, times the clipping factor). `spans` must match those
 * of create in all but pointers and copies. `step` counts from 1 (bias correction). Muon wants whole matrices, which
 * spans of several ranks have only through tess_fsdp_optimizer_step. TESS_E_INVALID: a span has no gradient. For shards
 * of a tess_fsdp use tess_fsdp_optimizer_step. */
TESS_API tess_status tess_optimizer_step(tess_optimizer *optimizer, const tess_span *spans, int64_t step, float lr,
                                         float grad_scale);

/* An array of an optimizer's state, for checkpoints: a value for each element of its span, or for each `block` elements
 * of a row, the last of which may be fewer. */
enum { TESS_OPTIMIZER_STATES = 4, TESS_STATE_BLOCK = 256 };
typedef struct tess_optimizer_state {
    const char *name; /* "exp_avg", "exp_avg_sq", "momentum_buffer"; of 8-bit moments "exp_avg_8bit" and
                       * "exp_avg_absmax", and the same of "exp_avg_sq". Static */
    tess_dtype dtype;
    int64_t block; /* 1 or TESS_STATE_BLOCK */
    void *data;    /* belongs to the optimizer */
} tess_optimizer_state;

/* Those of span `index`, at most TESS_OPTIMIZER_STATES; returns how many: 0 when it is frozen. */
TESS_API int tess_optimizer_states(const tess_optimizer *optimizer, int index, tess_optimizer_state *states);

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
