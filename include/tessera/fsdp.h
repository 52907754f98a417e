/* Fully sharded data parallel: units of parameters that are gathered, used and freed together.
 *
 * Parameters shard per tensor on dimension 0 (torch.chunk's rows), so a shard is a box of its parameter, without
 * flattening. Where the mesh has an axis "tp" (tensor parallel), a parameter may be cut along any dimension over that
 * axis first: a rank then gathers, computes with and reduces its chunk alone, which is sharded by rows like a parameter
 * of its own, but named, filled, counted in norms and saved as a box of the whole. Master weights are float32 shards; a
 * gather converts them to the policy's param dtype, once per host. The four hooks are plain calls that the engine makes
 * around its own layers:
 *
 *     pre_forward   gather the unit            post_forward   free it (by policy)
 *     pre_backward  gather it again, open the  post_backward  reduce-scatter the gradients into float32 shards, free
 *                   gradient buffers
 *
 * A step is: step_begin(n_micro), then for every local micro-batch: micro_begin, hooks of all units; then step_end,
 * which completes the sums. A micro-batch may run as several passes (tess_fsdp_set_passes). Gradients are the pairwise
 * binary tree over the global micro-batch index i = s * W + r, whatever the strategy and the world size W: a binary
 * counter of shard accumulators takes the ranks' micro-batches of local step s as leaves s * W .. s * W + W.
 *
 * Collective calls (all ranks of the mesh's data and tp axes, same order): create, materialize, every hook, step_end,
 * grad_norm, params_changed, update_begin and update_end.
 *
 * Errors: TESS_E_INVALID for calls out of this order and for bad arguments, on the caller alone and with nothing
 * changed; TESS_E_NOMEM; and the errors of collectives (tessera/comm.h), after which the only valid call is destroy.
 * One thread at a time may use a tess_fsdp and its units. They compute with the runtime's threads
 * (tess_runtime_options.n_threads), which sleep between calls; the bits do not depend on their number. */
#ifndef TESSERA_FSDP_H
#define TESSERA_FSDP_H

#include "tessera/dtensor.h"
#include "tessera/optim.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tess_fsdp tess_fsdp;
typedef struct tess_unit tess_unit;

/* The choice of what is replicated and what is sharded over the shard axis. */
typedef enum tess_strategy {
    TESS_STRATEGY_NONE,  /* DDP: parameters, gradients and optimizer state on every rank */
    TESS_STRATEGY_ZERO1, /* optimizer state and master weights sharded */
    TESS_STRATEGY_ZERO2, /* + gradients */
    TESS_STRATEGY_FULL,  /* + parameters (ZeRO-3) */
    TESS_STRATEGY_HYBRID /* FULL inside the shard axis, replicated over the replicate axis */
} tess_strategy;

/* "none", "zero1", "zero2", "full", "hybrid": the spelling of configurations. */
TESS_API const char *tess_strategy_name(tess_strategy strategy);

typedef struct tess_fsdp_policy {
    tess_strategy strategy;
    tess_dtype param_dtype; /* type of gathered parameters: TESS_F32, TESS_BF16 or TESS_F16 */
    tess_dtype
        reduce_dtype; /* type of gradients in flight: TESS_F32 (or TESS_BF16, TESS_F16: half the traffic, other bits) */
    int reshard_after_forward; /* 1: free after forward; 0: keep until backward; n > 1: keep sharded over n ranks. With
                                * sharded parameters n divides the number of shards; that number acts as 1. If all
                                * groups of n consecutive ranks lie within hosts, n acts as 0 */
    int prefetch;              /* units gathered ahead of use, 0.. */
} tess_fsdp_policy;

/* The part of a parameter that ranks hold which differ on the axis "tp": all of it (TESS_REPLICATE, the default), of
 * which each computes the same gradient, or chunks of dimension `dim` (TESS_SHARD) in multiples of `unit` indices, such
 * as the rows of a head. 0 counts as 1; the unit divides the dimension. */
typedef struct tess_param_cut {
    tess_place_kind kind;
    int dim;
    int64_t unit;
} tess_param_cut;

typedef struct tess_param_desc {
    const char *name; /* copied */
    tess_shape shape; /* global */
    bool trainable;   /* false: frozen, no gradient, no optimizer state */
    bool decay;       /* weight decay applies */
    tess_param_cut tp;
    bool hidden; /* a matrix of a layer, not of the embedding or the head: as in tess_span */
    bool narrow; /* frozen, and kept in param_dtype alone: no float32 weights, so its tess_shard has no `master`. With
                  * float32, or trainable, it is as any other */
    bool fp8; /* a matrix (R, C) that is gathered as E4M3, a byte a weight. Each row has C codes, then a byte for each
               * block of 128: the exponent of a float32, which is the power of two that the codes count. A code
               * stands for the weight in param_dtype, rounded. With float32 the weights may not be read in place */
    bool elsewhere; /* a frozen copy of what ranks with another tess_fsdp own; no rank of this one is primary for it */
} tess_param_desc;

/* `mesh` has an axis "dp_shard" and may have "dp_replicate" (before it) and "tp"; other axes are left alone: ranks that
 * differ on them have models of their own. It is borrowed and must outlive *fsdp; the policy is copied. */
TESS_API tess_status tess_fsdp_create(tess_mesh *mesh, const tess_fsdp_policy *policy, tess_fsdp **fsdp);
/* Waits for what is under way, frees the units too and nulls the handle. NULL is fine. */
TESS_API void tess_fsdp_destroy(tess_fsdp **fsdp);
TESS_API tess_runtime *tess_fsdp_runtime(const tess_fsdp *fsdp);
TESS_API tess_dtype tess_fsdp_param_dtype(const tess_fsdp *fsdp);

/* Every micro-batch runs as n_passes >= 1 passes, one after the other, before materialize; 1 if never called. Each pass
 * calls the hooks of all units once, and finds gradient buffers that it overwrites. The micro-batch's gradient is the
 * sum of its passes' in float32, in their order, and is reduced once; so the results depend on the number of passes,
 * and on nothing else that they did not depend on before. Costs the gradient of the whole model on each rank, and a
 * gather a pass. TESS_E_INVALID: less than 1, or after materialize. All ranks pass the same. */
TESS_API tess_status tess_fsdp_set_passes(tess_fsdp *fsdp, int n_passes);

/* Adds a unit, in forward order, before materialize. The handle belongs to `fsdp`. */
TESS_API tess_status tess_fsdp_add_unit(tess_fsdp *fsdp, const char *name, const tess_param_desc *params, int n_params,
                                        tess_unit **unit);

/* The engine calls the unit's hooks around each of n_blocks >= 1 of its own layers, one after the other, before
 * materialize; 1 if never called. A backward of the unit then begins with the first pre_backward of a pass and ends
 * with the n_blocks-th post_backward: in between all its parameters and gradient buffers stay. TESS_E_INVALID: less
 * than 1, or after materialize. All ranks pass the same. */
TESS_API tess_status tess_unit_set_blocks(tess_unit *unit, int n_blocks);

/* ---- The blocks that make a unit ---- */
/* A block: what an engine calls hooks around, in forward order. */
typedef struct tess_unit_block {
    int kind;           /* the engine's own number: embedding, layer, head */
    int64_t n_elements; /* elements of its parameters */
} tess_unit_block;

/* Small blocks each in a unit of their own cost a collective each; all in one unit are gathered all at once. */
typedef struct tess_unit_policy {
    int64_t min_blocks;   /* neighbours join until a unit has this many blocks, and */
    int64_t min_elements; /* this many elements; both 0: each block is a unit */
    bool mixes_kinds;     /* false: blocks of different kinds never join */
} tess_unit_policy;

/* Deals blocks out to units: unit_of (n_blocks) gets the number of each block's unit, ascending from 0; returns how
 * many units there are. The last unit of a run of one kind has what is left, however little. A pure function of its
 * arguments; bits of results do not depend on what it chooses. Thread-safe. */
TESS_API int tess_unit_policy_deal(const tess_unit_policy *policy, const tess_unit_block *blocks, int n_blocks,
                                   int *unit_of);

/* Writes the elements of `box`, a part of `shape`, into dst (float32, row-major). `shape` is the whole parameter's,
 * with at least one dimension; it is borrowed for the call. Must be a pure function of its arguments: each rank calls
 * it for what it holds only (tess_shard.box, when that is not empty), so no rank ever holds a whole model. */
typedef tess_status (*tess_fill_fn)(void *context, const char *name, const tess_shape *shape, const tess_box *box,
                                    float *dst);

/* Allocates shards and buffers and fills the master weights. When `fill` fails on one rank, all ranks fail with its
 * status and nothing stays allocated; the call may be repeated. TESS_E_MISMATCH: ranks added different parameters. */
TESS_API tess_status tess_fsdp_materialize(tess_fsdp *fsdp, tess_fill_fn fill, void *context);

/* ---- A step ---- */
/* All ranks pass the same number of micro-batches. TESS_E_NOMEM: no room for their sums; the step has not begun. */
TESS_API tess_status tess_fsdp_step_begin(tess_fsdp *fsdp, int n_local_micro_batches);
/* The same for a step of n_micro_batches over all ranks, which need not share them evenly. *n_local: how many each rank
 * runs. Of these, the ones whose global index s * W + r is n_micro_batches or more are empty: their hooks are called
 * like all others, and their gradients are not read. */
TESS_API tess_status tess_fsdp_step_begin_shared(tess_fsdp *fsdp, int64_t n_micro_batches, int *n_local);
/* local_index counts from 0. Begins the micro-batch and its first pass. */
TESS_API tess_status tess_fsdp_micro_begin(tess_fsdp *fsdp, int local_index);
/* Replaces micro_begin for each: begins all micro-batches of the step, for a schedule that has several under way.
 * Forwards come in any order; the backwards of a unit are those of micro-batch 0, 1, ..., whatever other units do in
 * between. With reshard_after_forward 0 a unit is kept from its first forward to its last backward. TESS_E_INVALID:
 * inside a micro-batch, or with passes. */
TESS_API tess_status tess_fsdp_micro_begin_all(tess_fsdp *fsdp);
/* Begins pass 1 .. n_passes - 1 of the micro-batch, after all hooks of the pass before. */
TESS_API tess_status tess_fsdp_pass_begin(tess_fsdp *fsdp, int pass);
TESS_API tess_status tess_unit_pre_forward(tess_unit *unit);
TESS_API tess_status tess_unit_post_forward(tess_unit *unit);
TESS_API tess_status tess_unit_pre_backward(tess_unit *unit);
TESS_API tess_status tess_unit_post_backward(tess_unit *unit);

/* Valid between a pre hook and its post hook: the whole parameter (of one that "tp" cuts this rank's chunk, row-major)
 * in param dtype, or as fp8 codes, and, in backward, its gradient buffer in float32 and of that shape, with undefined
 * content that the engine overwrites. Both are NULL at any other time; a frozen parameter has no gradient buffer. They
 * belong to the unit. */
TESS_API const void *tess_unit_param(const tess_unit *unit, int index);
TESS_API float *tess_unit_grad(const tess_unit *unit, int index);

TESS_API const char *tess_unit_name(const tess_unit *unit);
TESS_API int tess_unit_params(const tess_unit *unit);
/* Elements of what tess_unit_param gives; 0: there is no such parameter. After add_unit. */
TESS_API int64_t tess_unit_count(const tess_unit *unit, int index);

/* ---- The engine's or its users' own hooks ---- */
typedef enum tess_unit_moment {
    TESS_BEFORE_FORWARD,  /* the parameters have been gathered */
    TESS_AFTER_FORWARD,   /* they are still there */
    TESS_BEFORE_BACKWARD, /* parameters and gradient buffers are there */
    TESS_AFTER_BACKWARD   /* the gradient of the pass is complete, of this rank alone, and may be changed */
} tess_unit_moment;

/* Called at the end of a unit's pre hook and at the beginning of its post hook, for every unit, in the order of
 * addition; for a unit of several blocks forward moments come for each of them, backward moments once. It may read
 * parameters, change gradients, and prefetch; it calls no hook of a unit. When it fails, the hook that called it
 * returns its status, and the only valid call is destroy: let it fail on all ranks or on none. */
typedef tess_status (*tess_unit_hook)(void *context, tess_unit *unit, tess_unit_moment moment);

/* `context` is borrowed until destroy. TESS_E_NOMEM; TESS_E_INVALID: inside a step. */
TESS_API tess_status tess_fsdp_add_hook(tess_fsdp *fsdp, tess_unit_hook hook, void *context);

/* Begins to gather the unit ahead of its next hook, in addition to what policy.prefetch does, if memory for a copy is
 * free or already holds it; else does nothing. The bits do not depend on it. Collective, like hooks: all ranks call it
 * at the same place. */
TESS_API tess_status tess_unit_prefetch(tess_unit *unit);

/* ---- The end of a step ---- */
/* Completes the gradient sums of the step. */
TESS_API tess_status tess_fsdp_step_end(tess_fsdp *fsdp);

/* Evaluation may call pre_forward and post_forward outside of step_begin..step_end as well. */

/* ---- Shards: what optimizers, checkpoints and norms see ---- */
typedef struct tess_shard {
    const char *name;
    tess_shape shape; /* global */
    bool trainable, decay, hidden;
    /* Boxes are those of tess_shape_atleast_1d(shape). They differ from each other along dimension 0 alone, so that
     * each lies in one run of the memory of `box`. */
    tess_box box;      /* the box that `master` holds on this rank */
    float *master;     /* the elements of `box` */
    float *grad;       /* like master, valid after step_end; NULL when frozen. A sum, not a mean */
    tess_box primary;  /* the part of `box` that this rank counts in norms and writes to disk: every element of a
                        * parameter is primary on exactly one rank */
    void *copy;        /* the elements of copy_box in param dtype, NULL: none; see tess_fsdp_update_begin */
    tess_box copy_box; /* the part of `box` that this rank writes for all */
} tess_shard;

TESS_API int tess_fsdp_shards(const tess_fsdp *fsdp); /* parameters over all units, in order of addition */
/* After materialize. What *shard points to belongs to `fsdp`; `grad` and `copy` may change with the next step. */
TESS_API tess_status tess_fsdp_shard(tess_fsdp *fsdp, int index, tess_shard *shard);

/* Must be called after master weights changed (a load, for example): gathered copies are stale. Collective. */
TESS_API tess_status tess_fsdp_params_changed(tess_fsdp *fsdp);

/* Between these two calls an optimizer changes master weights and writes the same values, rounded to the param dtype,
 * into tess_shard.copy where there is one. That is part of a gathered copy that still exists; the next gather finds
 * these rows done. When the strategy keeps parameters gathered (all but FULL and HYBRID) or one rank has them all, all
 * copies last; else a few do. After begin without end, gathered copies are stale. Collective. */
TESS_API tess_status tess_fsdp_update_begin(tess_fsdp *fsdp);
TESS_API tess_status tess_fsdp_update_end(tess_fsdp *fsdp);

/* The shards as spans for an optimizer: tess_fsdp_shards of them, frozen ones without `param`. After materialize. They
 * belong to `fsdp` and describe the present: ask again after the step or update_begin has changed them.
 * TESS_E_NOMEM. */
TESS_API tess_status tess_fsdp_spans(tess_fsdp *fsdp, const tess_span **spans);

/* An optimizer over all shards, in their order, with the threads of `fsdp`. Destroy it (tess_optimizer_destroy) before
 * `fsdp`. TESS_E_UNSUPPORTED: Muon where the mesh's "tp" cuts a hidden matrix. */
TESS_API tess_status tess_fsdp_optimizer_create(tess_fsdp *fsdp, const tess_optimizer_options *options,
                                                tess_optimizer **optimizer);
/* tess_optimizer_step over all shards, between update_begin and update_end. Collective. TESS_E_INVALID: `optimizer` was
 * made for another fsdp; between step_begin and step_end; or there are no gradients. */
TESS_API tess_status tess_fsdp_optimizer_step(tess_fsdp *fsdp, tess_optimizer *optimizer, int64_t step, float lr,
                                              float grad_scale);

/* Global L2 norm of the gradients, exact up to one final rounding: sums of squares per row are added exactly, so no
 * shard boundary can change a bit. Rows that "tp" cuts are put together first. Not finite when any gradient is not. */
TESS_API tess_status tess_fsdp_grad_norm(tess_fsdp *fsdp, double *norm);

#ifdef __cplusplus
}
#endif

#endif
