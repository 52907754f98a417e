/* Fully sharded data parallel: units of parameters that are gathered, used and freed together.
 *
 * Each parameter is sharded separately along dimension 0 (torch.chunk's rows), without flattening, so a shard is a box
 * of its parameter. If the mesh has an axis "tp" (tensor parallel), a parameter may first be cut along any dimension
 * over that axis. A rank then gathers, uses and reduces only its chunk, which is sharded by rows like a separate
 * parameter. For names, initial values, norms and saves, the chunk is a box of the whole parameter.
 *
 * Master weights are float32 shards; a gather converts them to the policy's param dtype, once per host. The engine
 * calls four hooks around its own layers:
 *
 *     pre_forward    gather the unit
 *     post_forward   free it (by policy)
 *     pre_backward   gather it again, open the gradient buffers
 *     post_backward  reduce-scatter the gradients into float32 shards, free
 *
 * A step is: step_begin(n_micro); for every local micro-batch micro_begin and the hooks of all units; then step_end,
 * which completes the sums. A micro-batch may run as several passes (tess_fsdp_set_passes).
 *
 * Gradients are summed as a pairwise binary tree over the global micro-batch index i = s * W + r (local step s, rank r
 * of W ranks), whatever the strategy and W: a binary counter of shard accumulators takes the ranks' micro-batches of
 * local step s as leaves s * W .. s * W + W.
 *
 * Collective calls (all ranks of the mesh's data and tp axes, in the same order): create, materialize, every hook,
 * step_end, grad_norm, params_changed, update_begin and update_end.
 *
 * Errors: TESS_E_INVALID for calls out of this order and for bad arguments; only the caller receives it, and nothing
 * changes. TESS_E_NOMEM. The errors of collectives (tessera/comm.h), after which the only valid call is destroy.
 *
 * Only one thread at a time may use a tess_fsdp and its units. They compute with the runtime's threads
 * (tess_runtime_options.n_threads), which sleep between calls; the bits do not depend on their number. */
#ifndef TESSERA_FSDP_H
#define TESSERA_FSDP_H

#include "tessera/clock.h"
#include "tessera/dtensor.h"
#include "tessera/optim.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tess_fsdp tess_fsdp;
typedef struct tess_unit tess_unit;

/* The state that is sharded over the shard axis; all other state is replicated. */
typedef enum tess_strategy {
    TESS_STRATEGY_NONE,  /* DDP: parameters, gradients and optimizer state on every rank */
    TESS_STRATEGY_ZERO1, /* optimizer state and master weights sharded */
    TESS_STRATEGY_ZERO2, /* ZERO1, and gradients sharded */
    TESS_STRATEGY_FULL,  /* ZERO2, and parameters sharded (ZeRO-3) */
    TESS_STRATEGY_HYBRID /* FULL inside the shard axis, replicated over the replicate axis */
} tess_strategy;

/* Returns "none", "zero1", "zero2", "full" or "hybrid", as in configurations. */
TESS_API const char *tess_strategy_name(tess_strategy strategy);

typedef struct tess_fsdp_policy {
    tess_strategy strategy;
    tess_dtype param_dtype; /* type of gathered parameters: TESS_F32, TESS_BF16 or TESS_F16 */
    /* Type of gradients in communication: TESS_F32 (or TESS_BF16, TESS_F16: half the traffic, other bits). */
    tess_dtype reduce_dtype;
    /* 1: free after forward; 0: keep until backward; n > 1: keep sharded over n ranks. With sharded parameters n
     * must divide the number of shards; n equal to that number acts as 1. If all groups of n consecutive ranks are
     * inside one host each, n acts as 0 */
    int reshard_after_forward;
    int prefetch; /* number of units to gather before they are used, 0.. */
    size_t size;  /* 0, or sizeof this struct: tessera/version.h */
} tess_fsdp_policy;

/* How ranks that differ on the axis "tp" hold a parameter. TESS_REPLICATE (the default): each has all of it and
 * computes the same gradient. TESS_SHARD: each has a chunk of dimension `dim`, in multiples of `unit` indices, such
 * as the rows of a head. `unit` must divide the dimension; 0 counts as 1. */
typedef struct tess_param_cut {
    tess_place_kind kind;
    int dim;
    int64_t unit;
} tess_param_cut;

enum { TESS_CODES_FP8 = 1, TESS_CODES_F32 = 2 };

typedef struct tess_param_desc {
    const char *name; /* name, copied */
    tess_shape shape; /* shape of the whole parameter */
    bool trainable;   /* false: frozen, no gradient, no optimizer state */
    bool decay;       /* weight decay applies */
    tess_param_cut tp;
    bool hidden; /* a matrix of a layer, not of the embedding or the head; as in tess_span */
    /* Frozen, and kept only in param_dtype, without float32 weights: its tess_shard has no `master`. Without effect
     * if param_dtype is float32 or the parameter is trainable; otherwise TESS_E_UNSUPPORTED on a device */
    bool narrow;
    /* The codes as which a matrix (R, C) is gathered; 0: none, its values are. TESS_CODES_FP8: E4M3, one byte for each
     * weight. Each row has C codes, then one byte for each block of 128 weights: the exponent of a float32, which is
     * the power of two by which the codes are scaled. A code stands for the weight in param_dtype, rounded. With
     * float32 the weights cannot be read in place.
     * TESS_CODES_F32: the parameter, of any shape, is gathered as float32 whatever the param_dtype is */
    int codes;
    /* A frozen copy of a parameter that ranks with another tess_fsdp own; no rank of this one is primary for it */
    bool elsewhere;
} tess_param_desc;

/* Creates a tess_fsdp. `mesh` must have an axis "dp_shard" and may have "dp_replicate" (before it) and "tp". Other
 * axes are not used: ranks that differ on them have separate models. Borrows the mesh, which must outlive *fsdp;
 * copies the policy. */
TESS_API tess_status tess_fsdp_create(tess_mesh *mesh, const tess_fsdp_policy *policy, tess_fsdp **fsdp);
/* Waits for operations in progress, frees everything including the units, and nulls the handle. NULL is allowed. */
TESS_API void tess_fsdp_destroy(tess_fsdp **fsdp);
TESS_API tess_runtime *tess_fsdp_runtime(const tess_fsdp *fsdp);
TESS_API tess_dtype tess_fsdp_param_dtype(const tess_fsdp *fsdp);

/* Lets every micro-batch run as n_passes >= 1 passes, one after the other (1 if never called). All ranks must pass
 * the same number, before materialize.
 * Each pass calls the hooks of all units once, and overwrites the gradient buffers. The micro-batch's gradient is
 * the float32 sum of its passes' gradients, in their order, and is reduced once. So the bits depend on the number of
 * passes. This costs memory for the gradient of the whole model on each rank, and one gather per pass.
 * TESS_E_INVALID: less than 1, or after materialize */
TESS_API tess_status tess_fsdp_set_passes(tess_fsdp *fsdp, int n_passes);

/* Sets the number of micro-batches of a step over all ranks: 1 if never called, and steps may have other numbers. If it
 * takes many partial sums, each replica keeps a part of them. The bits do not depend on it. All ranks must pass the
 * same number, before the first unit.
 * TESS_E_INVALID: less than 1, or after the first unit */
TESS_API tess_status tess_fsdp_set_step_size(tess_fsdp *fsdp, int64_t n_micro_batches);

/* Lets conversions, additions, norms and updates run on `stream` (borrowed until destroy) instead of a stream of fsdp's
 * own, which has the runtime's threads. If its device is not the host, shards, parameters and gradients are in that
 * device's memory and follow the order of `stream`; the runtime must know the device (tess_runtime_use_device). Call it
 * before the first unit. The bits of results do not depend on it. TESS_E_INVALID: after the first unit */
TESS_API tess_status tess_fsdp_set_stream(tess_fsdp *fsdp, tess_stream *stream);

/* Lets gathers, reductions and waits switch the phase of `clock` (borrowed until destroy) and restore it afterwards.
 * Call it before the first step. A call that fails leaves the clock in its phase. */
TESS_API void tess_fsdp_set_clock(tess_fsdp *fsdp, tess_phase_clock *clock);

/* Adds a unit. Call it in forward order, before materialize. The handle belongs to `fsdp`. */
TESS_API tess_status tess_fsdp_add_unit(tess_fsdp *fsdp, const char *name, const tess_param_desc *params, int n_params,
                                        tess_unit **unit);

/* ---- Families of units, whose parameters the same ranks divide ---- */
typedef struct tess_fsdp_family tess_fsdp_family;

/* Adds a family: n_shards consecutive ranks of the data axes divide the parameters of its units, and every n_shards
 * ranks hold a replica. Units of tess_fsdp_add_unit belong to the family of the axis "dp_shard". `name` is borrowed
 * until destroy.
 *
 * parts: 0: all ranks have the same parameters. From 1 on: experts. Each of `parts` neighbouring data ranks, and each
 * rank of "tp", adds units of its own experts, with as many parameters of the same shapes. Then n_shards counts every
 * parts-th data rank. A rank's gradient is the sum over the micro-batches of `parts` neighbours, in the order of the
 * tree (comm/leaf_sum.h); `parts` is a power of two.
 *
 * Call it before materialize. Collective over the mesh. The family belongs to `fsdp`.
 * TESS_E_INVALID: n_shards or `parts` does not divide the number of data ranks, or reshard_after_forward does not
 * divide n_shards; then the only valid call is destroy */
TESS_API tess_status tess_fsdp_add_family(tess_fsdp *fsdp, const char *name, int n_shards, int parts,
                                          tess_fsdp_family **family);
/* Does what tess_fsdp_add_unit does, for a unit of this family. */
TESS_API tess_status tess_fsdp_add_unit_to(tess_fsdp_family *family, const char *name, const tess_param_desc *params,
                                           int n_params, tess_unit **unit);

/* ---- Blocks of a unit ---- */
/* Declares that the engine calls the unit's hooks around each of n_blocks >= 1 of its own layers, one after the
 * other (1 if never called). All ranks must pass the same number, before materialize. A backward of the unit then
 * starts with the first pre_backward of a pass and ends with the n_blocks-th post_backward. All parameters and
 * gradient buffers of the unit stay in memory during that time. TESS_E_INVALID: less than 1, or after materialize */
TESS_API tess_status tess_unit_set_blocks(tess_unit *unit, int n_blocks);

/* ---- Grouping blocks into units ---- */
/* A block: a part of a model, in forward order, around which an engine calls hooks. */
typedef struct tess_unit_block {
    int kind;           /* a number of the engine's choice: embedding, layer, head */
    int64_t n_elements; /* total elements of its parameters */
} tess_unit_block;

/* How blocks are grouped. If each small block is a unit, each costs a collective; if all blocks are one unit, all
 * are gathered at once. */
typedef struct tess_unit_policy {
    int64_t min_blocks;   /* a unit has at least this many blocks, and */
    int64_t min_elements; /* minimum elements of a unit; both 0: each block is a unit */
    bool mixes_kinds;     /* false: blocks of different kinds are never in one unit */
} tess_unit_policy;

/* Groups blocks into units. unit_of (n_blocks) receives the number of each block's unit, ascending from 0. Returns
 * the number of units. The last unit of a run of one kind has the remaining blocks, and may be smaller than the
 * policy says. A pure function of its arguments; the choice does not change the bits of results. Thread-safe. */
TESS_API int tess_unit_policy_deal(const tess_unit_policy *policy, const tess_unit_block *blocks, int n_blocks,
                                   int *unit_of);

/* A callback that writes the elements of `box`, a part of `shape`, to dst (float32, row-major). `shape` is that of
 * the whole parameter, with at least one dimension; it is borrowed during the call. It must be a pure function of
 * its arguments. Each rank calls it only for its own elements (tess_shard.box, if that is not empty), so no rank
 * ever holds a whole model. */
typedef tess_status (*tess_fill_fn)(void *context, const char *name, const tess_shape *shape, const tess_box *box,
                                    float *dst);

/* Allocates shards and buffers, and fills the master weights. If `fill` fails on one rank, all ranks fail with its
 * status and nothing stays allocated; the call may be repeated.
 * TESS_E_MISMATCH: ranks added different parameters */
TESS_API tess_status tess_fsdp_materialize(tess_fsdp *fsdp, tess_fill_fn fill, void *context);

/* Allocates the sums of gradients for steps of up to this many micro-batches, counted over all ranks, so that no later
 * step needs memory for them. Call it between steps. All ranks must pass the same number: if shards are on a device
 * (tess_fsdp_set_stream), ranks show each other that memory, and the call is collective.
 * TESS_E_NOMEM: memory ran out
 * TESS_E_INVALID: before materialize, or inside a step
 * With shards on a device, also the errors of collectives. */
TESS_API tess_status tess_fsdp_reserve(tess_fsdp *fsdp, int64_t n_micro_batches);

/* Returns the number of units. *largest: bytes of the largest unit's gathered parameters; NULL is allowed. */
TESS_API int tess_fsdp_units(const tess_fsdp *fsdp, int64_t *largest);

/* ---- A step ---- */
/* Starts a step. All ranks must pass the same number of micro-batches.
 * TESS_E_NOMEM: no memory for their sums; the step has not started */
TESS_API tess_status tess_fsdp_step_begin(tess_fsdp *fsdp, int n_local_micro_batches);
/* Starts a step of n_micro_batches over all ranks, which need not divide evenly. *n_local: how many each rank runs.
 * A micro-batch whose global index s * W + r is n_micro_batches or more is empty: its hooks are called like all
 * others, and its gradients are not read. */
TESS_API tess_status tess_fsdp_step_begin_shared(tess_fsdp *fsdp, int64_t n_micro_batches, int *n_local);
/* Starts a micro-batch and its first pass. local_index counts from 0. */
TESS_API tess_status tess_fsdp_micro_begin(tess_fsdp *fsdp, int local_index);
/* Starts all micro-batches of the step at once, in place of micro_begin, for a schedule that has several in
 * progress. Forwards may come in any order. The backwards of a unit must come in the order of micro-batches 0, 1,
 * ..., whatever other units do in between. With reshard_after_forward 0 a unit is kept from its first forward to its
 * last backward.
 * TESS_E_INVALID: inside a micro-batch, or with passes */
TESS_API tess_status tess_fsdp_micro_begin_all(tess_fsdp *fsdp);
/* Starts pass 1 .. n_passes - 1 of the micro-batch, after all hooks of the previous pass. */
TESS_API tess_status tess_fsdp_pass_begin(tess_fsdp *fsdp, int pass);
TESS_API tess_status tess_unit_pre_forward(tess_unit *unit);
TESS_API tess_status tess_unit_post_forward(tess_unit *unit);
TESS_API tess_status tess_unit_pre_backward(tess_unit *unit);
TESS_API tess_status tess_unit_post_backward(tess_unit *unit);

/* Return a parameter of the unit, and, in backward, its gradient buffer. Both are valid between a pre hook and its
 * post hook, and NULL at any other time. They belong to the unit.
 * param: the whole parameter (or this rank's chunk, row-major, if "tp" cuts it), in param dtype or as codes
 * grad: float32, of the same shape; its content is undefined, and the engine overwrites it; NULL for a frozen
 * parameter */
TESS_API const void *tess_unit_param(const tess_unit *unit, int index);
TESS_API float *tess_unit_grad(const tess_unit *unit, int index);

TESS_API const char *tess_unit_name(const tess_unit *unit);
TESS_API int tess_unit_params(const tess_unit *unit);
/* Returns the number of the unit's parameter among all (tess_fsdp_shard). */
TESS_API int tess_unit_number(const tess_unit *unit, int index);
/* The number of elements that tess_unit_param returns; 0: there is no such parameter. Call it after add_unit. */
TESS_API int64_t tess_unit_count(const tess_unit *unit, int index);

/* ---- Callbacks of the engine or its users ---- */
typedef enum tess_unit_moment {
    TESS_BEFORE_FORWARD,  /* the parameters have been gathered */
    TESS_AFTER_FORWARD,   /* the parameters are still gathered */
    TESS_BEFORE_BACKWARD, /* parameters and gradient buffers are ready */
    TESS_AFTER_BACKWARD   /* this rank's gradient of the pass is complete, and may be changed */
} tess_unit_moment;

/* A callback at the end of a unit's pre hook and at the start of its post hook. It is called for every unit;
 * callbacks run in the order in which they were added. For a unit of several blocks, forward moments come for each
 * block and backward moments once. It may read parameters, change gradients, and prefetch; it must not call a hook
 * of a unit. If it fails, the hook that called it returns its status, and the only valid call is destroy. So it must
 * fail on all ranks or on none. */
typedef tess_status (*tess_unit_hook)(void *context, tess_unit *unit, tess_unit_moment moment);

/* Adds a callback. Borrows `context` until destroy.
 * TESS_E_NOMEM: memory ran out
 * TESS_E_INVALID: inside a step */
TESS_API tess_status tess_fsdp_add_hook(tess_fsdp *fsdp, tess_unit_hook hook, void *context);

/* Starts gathering the unit before its next hook, in addition to what policy.prefetch does. Does nothing unless
 * memory for a copy is free or already holds it. The bits do not depend on it. Collective, like hooks: all ranks
 * must call it at the same place. */
TESS_API tess_status tess_unit_prefetch(tess_unit *unit);

/* ---- The end of a step ---- */
/* Ends the step: completes its gradient sums. */
TESS_API tess_status tess_fsdp_step_end(tess_fsdp *fsdp);

/* Evaluation may also call pre_forward and post_forward outside of step_begin .. step_end. */

/* Frees the gathered copies that training does not need, after more units were gathered at once than training gathers:
 * to generate text, an engine may call pre_forward of all units, use them many times, and then call post_forward of
 * all. Collective. TESS_E_INVALID: before materialize, or inside a step */
TESS_API tess_status tess_fsdp_trim(tess_fsdp *fsdp);

/* ---- Shards, for optimizers, checkpoints and norms ---- */
typedef struct tess_shard {
    const char *name;
    tess_shape shape; /* shape of the whole parameter */
    bool trainable, decay, hidden;
    /* Boxes are boxes of tess_shape_atleast_1d(shape). They differ from each other only along dimension 0, so each
     * is contiguous in the memory of `box`. */
    tess_box box;      /* the box of elements that `master` holds on this rank */
    float *master;     /* master weights of the elements of `box` */
    float *grad;       /* gradients of the elements of `box`, valid after step_end; NULL if frozen. A sum, not a mean */
    tess_box primary;  /* the part of `box` that this rank counts in norms and writes to disk: every element of a
                        * parameter is primary on exactly one rank */
    void *copy;        /* the elements of copy_box in param dtype; NULL: none; see tess_fsdp_update_begin */
    tess_box copy_box; /* the part of `box` that this rank writes for all ranks that share the copy */
} tess_shard;

/* Return the number of elements of a shard's box, and of one of its rows. Pure functions. */
TESS_API int64_t tess_shard_count(const tess_shard *shard);
TESS_API int64_t tess_shard_row(const tess_shard *shard);

/* Number of parameters of all units, in the order in which they were added */
TESS_API int tess_fsdp_shards(const tess_fsdp *fsdp);
/* Describes a shard. Call it after materialize. The memory that *shard points to belongs to `fsdp`; `grad` and
 * `copy` may change with the next step. */
TESS_API tess_status tess_fsdp_shard(tess_fsdp *fsdp, int index, tess_shard *shard);

/* Call it after master weights have changed (after a load, for example): gathered copies are out of date.
 * Collective. */
TESS_API tess_status tess_fsdp_params_changed(tess_fsdp *fsdp);

/* Between these two calls an optimizer changes master weights. It must also write the same values, rounded to the
 * param dtype, to tess_shard.copy where that is not NULL. That memory is part of a gathered copy that still exists,
 * so the next gather does not need to fill these rows. If the strategy keeps parameters gathered (all but FULL and
 * HYBRID), or one rank has all of them, all copies persist; otherwise a few do. After a begin without an end,
 * gathered copies are out of date. Collective. */
TESS_API tess_status tess_fsdp_update_begin(tess_fsdp *fsdp);
TESS_API tess_status tess_fsdp_update_end(tess_fsdp *fsdp);

/* Returns the shards as spans for an optimizer: tess_fsdp_shards of them; frozen ones have no `param`. Call it after
 * materialize. The spans belong to `fsdp`. Call it again after the step or update_begin has changed them.
 * TESS_E_NOMEM: memory ran out */
TESS_API tess_status tess_fsdp_spans(tess_fsdp *fsdp, const tess_span **spans);

/* Creates an optimizer over all shards, in their order. It uses the threads of `fsdp`. Destroy it
 * (tess_optimizer_destroy) before `fsdp`.
 * TESS_E_UNSUPPORTED: Muon, if the mesh's "tp" cuts a hidden matrix */
TESS_API tess_status tess_fsdp_optimizer_create(tess_fsdp *fsdp, const tess_optimizer_options *options,
                                                tess_optimizer **optimizer);
/* Runs tess_optimizer_step over all shards, including update_begin and update_end. Collective.
 * TESS_E_INVALID: `optimizer` was made for another fsdp; or between step_begin and step_end; or there are no
 * gradients */
TESS_API tess_status tess_fsdp_optimizer_step(tess_fsdp *fsdp, tess_optimizer *optimizer, int64_t step, float lr,
                                              float grad_scale);

/* Computes the global L2 norm of the gradients, exact up to one final rounding. Sums of squares per row are added
 * exactly, so no shard boundary changes a bit. Rows that "tp" cuts are combined first. The result is not finite if
 * any gradient is not. */
TESS_API tess_status tess_fsdp_grad_norm(tess_fsdp *fsdp, double *norm);

/* ---- Parameters in other forms ---- */
/* Whether units read the master weights in place. If so, nothing is gathered, and nothing can be gathered as codes
 * (tess_param_desc.codes). */
TESS_API bool tess_fsdp_reads_masters(const tess_fsdp *fsdp);

/* Whether parameter `index` is gathered as codes. False: it is not, or there is no such parameter. */
TESS_API bool tess_fsdp_is_coded(const tess_fsdp *fsdp, int index);

/* Returns the elements of a narrow parameter's shard (tess_param_desc.narrow), in param dtype or as codes. The
 * memory belongs to `fsdp`. Call it after materialize. NULL: the parameter is not narrow, this rank has nothing of its
 * unit, or there is no such parameter. */
TESS_API void *tess_fsdp_narrow(const tess_fsdp *fsdp, int index);
/* Returns the size of that memory in bytes; 0: there is none. */
TESS_API size_t tess_fsdp_narrow_bytes(const tess_fsdp *fsdp, int index);

/* Returns the bytes of this rank's own rows in the form in which they are gathered: codes and narrow parameters.
 * They are part of the parameters' memory. Call it after materialize. */
TESS_API size_t tess_fsdp_codes_bytes(const tess_fsdp *fsdp);

/* ---- Shards in the memory of a device (tess_fsdp_set_stream), and the host's copies of them ----
 * tess_fsdp_shard and tess_optimizer_states return the host's copies of master weights and moments without updating
 * them. If the shards are on the host, these functions do nothing. They are not collective, and wait for their copies.
 * TESS_E_NOMEM: see_gradients has no memory for its copy
 * They also return the GPU's own errors (tessera/devices.h), such as those of operations that were enqueued before. */
/* Copies to the device what the caller has changed in these copies. tess_fsdp_params_changed does it, too. */
TESS_API tess_status tess_fsdp_upload(tess_fsdp *fsdp);
/* Copies the finished gradients to the host: until the next step tess_shard.grad is that copy instead of device memory.
 * The second function copies back what the caller has changed there; before the first, it does nothing. Call them after
 * step_end. */
TESS_API tess_status tess_fsdp_see_gradients(tess_fsdp *fsdp);
TESS_API tess_status tess_fsdp_upload_gradients(tess_fsdp *fsdp);

/* ---- State that outlives a process ----
 * The launcher of a job may keep memory for its ranks (checkpoint.memory_copies of `tessera train`). Weights, sums and
 * moments lie there, and a process that replaces a rank finds them. In a job without such memory, keep and kept do
 * nothing, and the others return TESS_E_INVALID. */
/* Says that this fsdp's state ends with the process, because that memory holds the state of another one. Call it
 * before the first unit. TESS_E_INVALID: after the first unit */
TESS_API tess_status tess_fsdp_set_private(tess_fsdp *fsdp);
/* Both are about shards on a device. keep begins to copy weights and moments, which are those of `step`, to that
 * memory, next to those of the step before, which stay valid. The next keep overwrites those of the step before: no
 * rank may need them any more. kept waits until the copy is there. Neither is collective. Both return the GPU's own
 * errors (tessera/devices.h). */
TESS_API tess_status tess_fsdp_keep(tess_fsdp *fsdp, int64_t step);
TESS_API tess_status tess_fsdp_kept(tess_fsdp *fsdp);
/* Restores the weights and moments of `step` that a predecessor of this process has kept, to shards on a device. The
 * caller knows from a record of its own that they are there. */
TESS_API tess_status tess_fsdp_take_up(tess_fsdp *fsdp, int64_t step);
/* Restores the finished gradients of a step of n_micro_batches over all ranks, in shards on the host. A predecessor of
 * this process had completed step_end. Not collective. */
TESS_API tess_status tess_fsdp_find_gradients(tess_fsdp *fsdp, int64_t n_micro_batches);

/* ---- Pipelines, whose ranks have a tess_fsdp for each stage ---- */
/* Makes grad_norm cover the parameters of all ranks of `team` (borrowed until destroy). `team` contains whole data
 * axes. Default: the ranks of this mesh's data axes. Call it before materialize, on all ranks of the team.
 * TESS_E_INVALID: after materialize */
TESS_API tess_status tess_fsdp_set_norm_team(tess_fsdp *fsdp, tess_team *team);

/* Bring the master weights of parameter `index` from the rank of `team` that owns them to the one that has a copy
 * (tess_param_desc.elsewhere), whose shards have the same boxes. Call them between steps, after weights have changed.
 * `tag` is that of the messages (tess_send). The receiver's call is collective over the ranks of its `fsdp`, and has an
 * update's effect on gathered copies.
 * TESS_E_INVALID: no such parameter, before materialize, or the parameter is narrow */
TESS_API tess_status tess_fsdp_send_weights(tess_fsdp *fsdp, int index, tess_team *team, int to, uint32_t tag);
TESS_API tess_status tess_fsdp_receive_weights(tess_fsdp *fsdp, int index, tess_team *team, int from, uint32_t tag);

/* ---- Checks of replicas and of gradients ---- */
/* Returns the team of ranks that hold the same rows of parameter `index` and the same optimizer state as this one,
 * bit for bit: replicas, and ranks of the axis "tp" if that axis does not split the parameter. It belongs to `fsdp`.
 * NULL: only this rank holds them, or there is no such parameter. */
TESS_API tess_team *tess_fsdp_holders(const tess_fsdp *fsdp, int index);

/* Compares the gathered copy of parameter `index` with the rounded master weights, in the rows that this rank writes.
 * *at: number of the first element of the whole parameter that differs; -1: none, or no copy is in use. Call it between
 * steps. TESS_E_INVALID: no such parameter, or before materialize */
TESS_API tess_status tess_fsdp_copy_differs(tess_fsdp *fsdp, int index, int64_t *at);

/* A gradient of one rank that was not finite. */
typedef struct tess_fsdp_bad_gradient {
    const char *param;       /* name of the parameter; lives as long as the fsdp */
    int rank;                /* first rank of the job whose gradient was not finite at this place */
    int n_ranks;             /* number of such ranks */
    int micro;               /* their local micro-batch */
    int64_t order;           /* number among all reductions, the same on all ranks of a replica */
    int64_t row, column;     /* place in the whole parameter */
    int64_t n_bad, n_values; /* counts of that rank, over the rows of the parameter that this rank sums at a time */
    double value;
} tess_fsdp_bad_gradient;

/* Finds the first gradient of the newest step that was not finite, among the rows that this rank sums. Call it after
 * step_end. False: all were finite, or the rank cannot be known (no peers, peers on other hosts, finite gradients whose
 * sum overflows). */
TESS_API bool tess_fsdp_find_bad_gradient(const tess_fsdp *fsdp, tess_fsdp_bad_gradient *bad);

/* ---- Traffic ---- */
/* The bytes that this rank has moved so far. */
typedef struct tess_fsdp_traffic {
    uint64_t gathered_bytes; /* bytes that this rank reads and writes to gather parameters */
    uint64_t reduced_bytes;  /* bytes that this rank reads and writes to sum gradients */
    /* time that ranks in lockstep would have waited for peers, minus the time that this rank waited */
    int64_t hidden_ns;
} tess_fsdp_traffic;

TESS_API tess_fsdp_traffic tess_fsdp_get_traffic(const tess_fsdp *fsdp);

#ifdef __cplusplus
}
#endif

#endif
