/* Optimizers over spans of float32 elements, and learning-rate schedules. The order of operations on an element, on
 * a block of state and on a matrix is fixed and does not depend on how spans are cut. So the bits are the same on
 * any number of ranks. */
#ifndef TESSERA_OPTIM_H
#define TESSERA_OPTIM_H

#include "tessera/devices.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tess_optimizer_kind {
    TESS_ADAMW, /* Loshchilov & Hutter, arXiv:1711.05101, as torch.optim.AdamW */
    TESS_ADAM,  /* Kingma & Ba, arXiv:1412.6980, as torch.optim.Adam: weight decay is added to the gradient */
    /* SGD as torch.optim.SGD, with or without momentum (Nesterov's too): weight decay is added to the gradient */
    TESS_SGD,
    TESS_MUON, /* Jordan et al. 2024, as torch.optim.Muon, for hidden matrices; AdamW for all others */
    /* AdamW. The moments of hidden matrices of 4096 elements or more are 8-bit codes (Dettmers et al.,
     * arXiv:2110.02861), in blocks of TESS_STATE_BLOCK elements of a row */
    TESS_ADAMW_8BIT,
} tess_optimizer_kind;

/* The step size of Muon for a matrix of shape (R, C). */
typedef enum tess_muon_rate {
    /* lr * 0.2 sqrt(max(R, C)): steps as large as AdamW's, so that one lr serves both (arXiv:2502.16982) */
    TESS_MUON_MATCH_RMS,
    TESS_MUON_ORIGINAL /* lr * sqrt(max(1, R / C)) */
} tess_muon_rate;

typedef struct tess_optimizer_options {
    tess_optimizer_kind kind;
    float beta1, beta2, eps; /* constants of AdamW and Adam */
    float weight_decay;
    float momentum; /* momentum of SGD (0: no momentum and no state) and Muon */
    bool nesterov;
    tess_muon_rate muon_rate;
    /* TESS_F32, or TESS_BF16 with stochastic rounding: a function of (seed, name of the span, step, element) */
    tess_dtype state_dtype;
    uint64_t seed;
    size_t size; /* 0, or sizeof this struct: tessera/version.h */
} tess_optimizer_options;

typedef struct tess_optimizer tess_optimizer;

/* The elements of a tensor that this rank updates. */
typedef struct tess_span {
    const char *name;  /* name, for messages and stochastic rounding */
    int64_t n;         /* number of elements */
    bool decay;        /* weight decay applies */
    bool hidden;       /* a matrix of a layer, (out, in) or (in, out): Muon and 8-bit states apply to these only */
    tess_shape shape;  /* shape of the whole tensor; n_dims 0: the span is a vector without a larger tensor */
    tess_box box;      /* the box of these n elements in the tensor, row-major */
    float *param;      /* (n) weights; NULL: frozen, with no state and no update */
    const float *grad; /* (n) gradients, which only updates read; NULL: not available yet */
    /* (copy_n) of copy_dtype: an update also writes elements copy_begin .. copy_begin + copy_n here; NULL: none */
    void *copy;
    tess_dtype copy_dtype;
    int64_t copy_begin, copy_n;
} tess_span;

/* Creates an optimizer with state for `spans`, in the optimizer pool of `mem` (borrowed until destroy). The state is
 * zeroed, or that of an earlier process of the job. The spans are not stored. For shards of a tess_fsdp use
 * tess_fsdp_optimizer_create.
 * TESS_E_INVALID: the message names the option that is out of range, or the span whose box cuts a block of an 8-bit
 * state
 * TESS_E_NOMEM: memory ran out */
TESS_API tess_status tess_optimizer_create(tess_mem *mem, const tess_span *spans, int n_spans,
                                           const tess_optimizer_options *options, tess_optimizer **optimizer);
TESS_API void tess_optimizer_destroy(tess_optimizer **optimizer);

/* ---- The place of an optimizer ---- */
/* Matrices that ranks update at the same time: rank i of the exchange updates the i-th. */
typedef struct tess_matrix_turn {
    const int *which; /* (n) numbers of their spans */
    int n;
    float *const *part; /* (n) this rank's elements of each */
    float *whole;       /* the whole matrix that this rank updates; NULL: it updates none in this turn */
    float *room;        /* work space of the same size, for the exchange */
} tess_matrix_turn;

/* How ranks that have parts of the same matrices exchange them, for Muon. gather fills `whole` from all ranks' parts;
 * scatter fills all ranks' parts from it. Both are collective, and all ranks make the calls of a step in the same
 * order. */
typedef struct tess_matrix_exchange {
    void *self;
    int n_ranks, rank; /* 1 and 0: this rank has every span whole, and the callbacks may be NULL */
    tess_status (*gather)(void *self, const tess_matrix_turn *turn);
    tess_status (*scatter)(void *self, const tess_matrix_turn *turn);
} tess_matrix_exchange;

typedef struct tess_optimizer_place {
    tess_matrix_exchange exchange; /* copied; its `self` is borrowed until destroy */
    /* Updates run on it, and the state is memory of its device. Borrowed until destroy. NULL: the optimizer creates a
     * stream of the host */
    tess_stream *stream;
    const void *owner; /* returned by tess_optimizer_owner; NULL: none */
    bool is_private;   /* the state ends with the process, even if memory of an earlier process of the job exists */
} tess_optimizer_place;

/* Does what tess_optimizer_create does, at a place: on a device, or for ranks that have parts of matrices.
 * TESS_E_UNSUPPORTED: tess_optimizer_check_device refuses the options */
TESS_API tess_status tess_optimizer_create_at(tess_mem *mem, const tess_span *spans, int n_spans,
                                              const tess_optimizer_options *options, const tess_optimizer_place *place,
                                              tess_optimizer **optimizer);
/* Checks that a GPU can update with these options. Pure function.
 * TESS_E_UNSUPPORTED: no kernel does; the message names the options that can */
TESS_API tess_status tess_optimizer_check_device(const tess_optimizer_options *options);
/* Returns the owner that create was given, such as the tess_fsdp of tess_fsdp_optimizer_create. */
TESS_API const void *tess_optimizer_owner(const tess_optimizer *optimizer);
/* Whether a step communicates with other ranks. Then all of them call it, including ranks that have already completed
 * it before they failed: their journal leaves their weights and state unchanged. */
TESS_API bool tess_optimizer_meets(const tess_optimizer *optimizer);

/* A callback during an update of state that outlives the process, called before ("shard") and after ("shard-done") each
 * span that has elements. These spans are numbered from 0; Muon's count twice, once for the momentum and once for the
 * weights. Drills interrupt an update there. NULL: none. set_observer replaces the one before, and borrows `self` until
 * destroy or until it is replaced in turn. It cannot fail. */
typedef void (*tess_optimizer_observer)(void *self, const char *moment, int64_t number);
TESS_API void tess_optimizer_set_observer(tess_optimizer *optimizer, tess_optimizer_observer observer, void *self);

/* ---- Updates ---- */
/* Sets the number of threads for updates, including the caller's. The default is 1, or the runtime's number for
 * tess_fsdp_optimizer_create. The bits do not depend on it.
 * TESS_E_INVALID: below 1
 * TESS_E_NOMEM: memory ran out */
TESS_API tess_status tess_optimizer_set_threads(tess_optimizer *optimizer, int n_threads);

/* Runs one update with gradient grad * grad_scale (1 / target tokens, times the clipping factor). `spans` must equal
 * those of create, except for pointers and copies. `step` counts from 1 (bias correction). Muon needs whole
 * matrices; if several ranks have parts of them, and for all shards of a tess_fsdp, use tess_fsdp_optimizer_step.
 * TESS_E_INVALID: a span has no gradient */
TESS_API tess_status tess_optimizer_step(tess_optimizer *optimizer, const tess_span *spans, int64_t step, float lr,
                                         float grad_scale);

/* An array of an optimizer's state, for checkpoints: one value for each element of its span, or for each `block`
 * elements of a row (the last block of a row may be smaller). */
enum { TESS_OPTIMIZER_STATES = 4, TESS_STATE_BLOCK = 256 };
typedef struct tess_optimizer_state {
    /* "exp_avg", "exp_avg_sq", "momentum_buffer"; for 8-bit moments "exp_avg_8bit" and "exp_avg_absmax", and the
     * same for "exp_avg_sq". Static */
    const char *name;
    tess_dtype dtype;
    int64_t block; /* 1 or TESS_STATE_BLOCK */
    void *data;    /* belongs to the optimizer */
} tess_optimizer_state;

/* Lists the state arrays of span `index`, at most TESS_OPTIMIZER_STATES. Returns their number; 0 if it is frozen, or if
 * `optimizer` is NULL. */
TESS_API int tess_optimizer_states(const tess_optimizer *optimizer, int index, tess_optimizer_state *states);

/* Describes the state arrays that a trainable tensor of this shape has, like tess_optimizer_states but with `data`
 * NULL: for a tensor of which this rank has no part. `hidden`: as in tess_span. Returns their number; 0 if `optimizer`
 * is NULL. */
TESS_API int tess_optimizer_describe(const tess_optimizer *optimizer, const tess_shape *shape, bool hidden,
                                     tess_optimizer_state *states);

typedef enum tess_schedule_kind {
    TESS_SCHEDULE_CONSTANT,
    TESS_SCHEDULE_LINEAR,
    TESS_SCHEDULE_COSINE,
    TESS_SCHEDULE_WSD /* warm-up, stable, decay */
} tess_schedule_kind;

typedef struct tess_schedule {
    tess_schedule_kind kind;
    double lr, min_lr_factor;    /* the rate decays from lr to lr * min_lr_factor */
    int64_t warmup_steps, steps; /* steps: length of the whole run */
    int64_t decay_steps;         /* WSD: length of the last, linear phase */
} tess_schedule;

/* Returns the learning rate of `step`, which counts from 1 to `steps`. Pure function. */
TESS_API double tess_schedule_lr(const tess_schedule *schedule, int64_t step);

#ifdef __cplusplus
}
#endif

#endif
