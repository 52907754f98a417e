/* The private header of this folder: the objects of fully sharded data parallel, and the functions that its files call
 * of each other. parallel/fsdp/fsdp_offload.h is the interface for state on disk.
 *
 * - fsdp_topology.c: the teams of families of units
 * - fsdp.c: create, policy, families, units
 * - fsdp_choose.c: the facts that follow from them
 * - wire_form.c: the forms in which rows travel
 * - fsdp_layout.c: where rows live in shards, gathered copies and windows
 * - materialize.c: memory and first weights
 * - slot.c: memory of gathered copies, and when it may be rewritten
 * - stash.c: parts of gathered copies that are kept until backward
 * - fsdp_order.c: the order in which units are used
 * - gather.c: gathering and prefetching
 * - fsdp_codes.c: units that are gathered as bytes: weights as fp8, weights without masters
 * - fsdp_window.c: memory of gradients until they are reduced, or added to those of previous passes
 * - fsdp_turns.c: which unit uses which window
 * - fsdp_passes.c: micro-batches in several passes
 * - fsdp_parts.c: micro-batches whose tokens ranks divide
 * - fsdp_sums.c: partial sums and their memory
 * - fsdp_reduce.c: the ways of gradients: reduce-scatter and the counter
 * - fsdp_exchange.c: exchange of leaves between replicas
 * - unit.c: the four hooks
 * - unit_policy.c: which blocks make a unit
 * - fsdp_step.c: step_begin .. step_end
 * - shard.c: what optimizers and checkpoints see, and parameters that others change (fsdp_values.h)
 * - fsdp_matrices.c: whole matrices, for optimizers that need them
 * - fsdp_norm.c: the exact gradient norm
 * - fsdp_cut_rows.c: norms of rows whose columns are split over ranks
 * - fsdp_homes.c: state at its home: brought before use, let go after
 * - fsdp_clock.c: phases, waits, bytes
 * - fsdp_memory.c: memory that peers can read, and memory that outlives the rank
 * - fsdp_persist.c: notes which of the outliving memory is the finished gradient
 * - fsdp_replicas.c: finds memory that is equal on several ranks
 * - bad_gradient.c: which rank's gradient was not finite
 *
 * A strategy changes who holds what, not the sum:
 *
 *   full     everything is sharded; gathered copies rotate through a few slots (one rank alone keeps them all)
 *   hybrid   full inside dp_shard, then a tree over dp_replicate (the high bits of the rank)
 *   zero2    gathered parameters persist, and AdamW writes them, so that nothing is left to gather
 *   zero1    gradient windows of all units also persist through a micro-batch, and are reduced at its end
 *   none     masters, gradients and moments are on every rank
 *
 * Bytes that a step of one bfloat16 micro-batch a rank moves through memory per parameter, over all ranks of a host,
 * reads and writes (without lines that are read only to be overwritten; `full` at its worst, when no copy is left to be
 * used again). Every second further micro-batch of one rank writes a window and adds it: 4 + 12 instead of 4.
 *
 *                    gather, forward and backward   dW      reduce      norm   AdamW    sum
 *   1 rank           0                              4       0           4      28 + 2    38
 *   2 ranks, zero2   0                              2 x 4   2 x 4 + 4   4      28 + 2    54
 *   2 ranks, full    2 x (4 + 2)                    2 x 4   2 x 4 + 4   4      28        64
 *
 * Every decision here (which slot, when to wait, what to prefetch) follows from the order of calls alone, never from
 * time: all ranks decide alike, which is what makes the collectives meet. */
#ifndef TESS_PARALLEL_FSDP_FSDP_IMPL_H
#define TESS_PARALLEL_FSDP_FSDP_IMPL_H

#include "base/core/exact_sum.h"
#include "base/text/name_index.h"
#include "comm/leaf_sum.h"
#include "device/home/home.h"
#include "mesh/shares.h"
#include "parallel/fsdp/fsdp_offload.h"
#include "parallel/fsdp/fsdp_topology.h"
#include "parallel/fsdp/wire_form.h"

typedef struct tess_fsdp_param {
    char *name;
    tess_shape shape;
    bool trainable, decay, hidden, elsewhere;
    tess_param_cut tp;
    tess_box part;     /* the box that the ranks of the data axes hold together; without tp, the whole parameter */
    int64_t rows, row; /* size of `part`: rows of dimension 0, elements of a row */
    tess_box own;      /* this rank's share of it on the shard axis */
    tess_box held;     /* the box of master weights on this rank: own, or part if the strategy replicates them */
    tess_box primary;  /* primary of tess_shard */
    const tess_wire_form *form; /* gathered in it */
    bool narrow;                /* its own rows are only in the unit's codes, without master weights */
    size_t full_at;             /* offset in the gathered copy, bytes */
    size_t codes_at;            /* offset of own rows in the unit's codes, bytes */
    size_t master_offset;       /* elements from the start of the unit's master weights */
    size_t window_offset;       /* elements from the start of the gradient window (trainable only, as the next two) */
    size_t accumulator_offset;  /* own rows, from the start of an accumulator */
    size_t gradient_offset;     /* held rows, from the start of the finished gradient */
} tess_fsdp_param;

typedef struct tess_fsdp_stamp tess_fsdp_stamp;
typedef struct tess_fsdp_way tess_fsdp_way;
typedef struct tess_fsdp_exchange tess_fsdp_exchange;

/* Memory of one gathered copy, shared by the ranks of the shard team on this host. */
typedef struct tess_fsdp_slot {
    struct tess_fsdp_slot *next;
    void *data;
    size_t bytes;
    int size_class;
    tess_unit *unit;   /* the unit whose parameters it holds, or NULL */
    bool valid;        /* the parameters are there, or on their way (work) */
    bool held;         /* a hook holds it, so it may not be reused */
    bool updating;     /* the optimizer writes new weights into it (tess_fsdp_update_begin) */
    tess_work *work;   /* the gather under way */
    uint64_t number;   /* the gather's number among the shard team's collectives */
    uint64_t released; /* collectives issued when the last reader released it */
} tess_fsdp_slot;

/* Memory of one unit's gradients: written by the engine, read by the peers. */
typedef struct tess_fsdp_window {
    struct tess_fsdp_window *next;
    void *data;     /* gradients in the reduce form, which peers read; NULL: scratch memory */
    float *staging; /* float32 that the engine writes into scratch, or if the form is narrower; else NULL */
    int size_class;
    tess_unit *unit;   /* the unit that uses it, from pre_backward until the reduction is complete */
    bool reducing;     /* the engine has finished writing */
    uint64_t released; /* order of release, oldest first */
} tess_fsdp_window;

/* The places of a unit's rows in memory of each kind. */
typedef struct tess_fsdp_layout {
    bool plain;  /* all parameters are gathered in plain forms */
    bool narrow; /* some parameter is */
    bool coded;  /* a parameter is narrow, or not plain: bytes are gathered */
    size_t full_bytes, codes_bytes;
    size_t master_elements, window_elements, gradient_elements;
    size_t own_elements;          /* trainable elements of own rows */
    int full_class, window_class; /* units of the same class share memory */
    tess_piece *gather_pieces;    /* (n_params) master weights -> gathered copy */
    tess_piece *reduce_pieces;    /* (n_trainable) window -> accumulator */
    tess_piece *gradient_pieces;  /* (n_gradient_pieces) total -> finished gradient, if ranks gather it */
    int n_gradient_pieces;
} tess_fsdp_layout;

/* A rank's part of a gathered copy, which it keeps until backward. */
typedef struct tess_fsdp_stash {
    void *bytes;      /* NULL: there is none */
    bool fresh;       /* it matches the weights */
    tess_piece piece; /* stash -> gathered copy */
} tess_fsdp_stash;

/* The hooks that are open. */
typedef struct tess_fsdp_uses {
    int n_blocks;         /* blocks of the engine in this unit */
    int n_forward;        /* open forwards */
    int n_forwarded;      /* number of blocks whose forwards follow each other; 0: all */
    int n_begun, n_ended; /* blocks of the open backward; 0: no backward is open */
    bool kept;            /* not resharded after forward */
    bool backward_done;   /* backward of this pass is done; if all micro-batches are open, the backwards of all */
} tess_fsdp_uses;

static inline bool tess_fsdp_uses_are_open(const tess_fsdp_uses *u)
{
    return u->n_forward > 0 || u->n_begun > 0;
}

/* `keeps`: the unit is kept until its backward, unless that is done. */
static inline void tess_fsdp_uses_end_forward(tess_fsdp_uses *u, bool keeps)
{
    u->n_forward--;
    u->n_forwarded = (u->n_forwarded + 1) % u->n_blocks;
    u->kept = u->kept || (keeps && !u->backward_done);
}

/* `is_last`: no other backward of the unit follows in this pass. */
static inline void tess_fsdp_uses_end_backward(tess_fsdp_uses *u, bool is_last)
{
    u->n_begun = u->n_ended = u->n_forwarded = 0;
    u->backward_done = is_last;
    u->kept = u->kept && !is_last;
}

/* The sum of one micro-batch over ranks, while it is under way. */
typedef struct tess_fsdp_reduction {
    tess_work *work;         /* over the shards */
    tess_work *replica_work; /* over the replicas, which follows */
    uint64_t number;         /* the first one's number among the shard team's collectives */
    int micro;               /* local micro-batch that is reduced */
    tess_leaf_step step; /* the sum over the shards, or then over the replicas, which becomes one leaf; y NULL: none */
    float *sum;          /* the counter's memory for this leaf, at home */
} tess_fsdp_reduction;

/* Partial sums of leaves: a binary counter with its memory and the additions that are due (fsdp_sums.c). */
typedef struct tess_fsdp_sums {
    size_t begin, elements; /* a sum's part of the unit's own elements */
    float **memory;         /* (counter.n_memory) */
    size_t room;
    tess_leaf_counter counter;
    tess_leaf_step steps[TESS_LEAF_STEPS]; /* additions that are due */
    int n_steps, n_sent;                   /* the first n_sent are part of a collective */
} tess_fsdp_sums;

struct tess_unit {
    tess_fsdp *fsdp;
    tess_fsdp_family *family;
    char *name;
    char label[16]; /* label of the unit's operations: "layer" if its name ends with a number, else its name */
    int64_t number; /* the number that its name ends with; -1: none */
    int index;
    int first; /* the number of its first parameter among all */
    tess_fsdp_param *params;
    int n_params, n_trainable;

    tess_fsdp_layout layout;
    float *master;
    bool shard_shown; /* the shard team can read what gathers read of this rank */
    uint8_t *codes;   /* own rows in the form in which they are gathered; with one shard, the gathered copy */
    bool codes_fresh; /* the codes match the weights */
    tess_fsdp_stash stash;
    tess_fsdp_slot *slot;
    tess_fsdp_uses uses;
    int micro; /* micro-batch of the newest backward, or of the next */

    tess_fsdp_window *window;
    bool deferred;             /* gradients wait in the window for the end of the micro-batch */
    tess_fsdp_window *scratch; /* memory that the engine writes between backward hooks of a later pass, or NULL */
    const tess_fsdp_way *way;
    float *in_place; /* the accumulator that is written instead of a window until the last pass's backward, or NULL */
    tess_fsdp_reduction reduction;
    tess_fsdp_sums sums;
    float *total;    /* the step's gradient, after step_end */
    float *gradient; /* the whole gradient, if other ranks sum parts of it; else NULL */
};

typedef enum tess_fsdp_state { TESS_FSDP_BUILDING, TESS_FSDP_IDLE, TESS_FSDP_STEP } tess_fsdp_state;

/* Facts that follow from the policy, the options and a family's teams. Computed
 * once, when the family gets its first unit: all options must be set before. */
typedef struct tess_fsdp_facts {
    bool alone;         /* no peers: gradients are summed in place */
    bool replicated;    /* several ranks each hold all master weights and gradients */
    bool divides;       /* each replica keeps a part of the sums, and they gather the finished gradient */
    bool persistent;    /* every unit keeps a gathered copy of its own */
    bool direct;        /* master weights are the gathered copy */
    bool keep;          /* not freed between forward and backward */
    bool grouped;       /* freed, and stashed by groups of reshard_after_forward ranks */
    bool defer;         /* gradients are reduced at the end of the micro-batch */
    bool splits_copies; /* ranks of the shard team have gathered copies of their own: on several hosts, on a device */
    int leaf;           /* micro-batches in a leaf of the counters */
    int portion;        /* leaves that arrive at the same time */
} tess_fsdp_facts;

/* The collectives of a shard team, which all its ranks issue in the same order. */
typedef struct tess_fsdp_sequence {
    uint64_t issued, proven; /* number of collectives issued, and of those known to be complete */
    tess_fsdp_stamp *stamps; /* (n_shards, a ring each) shared; NULL without peers */
} tess_fsdp_sequence;

/* Units whose parameters the same ranks divide, and the memory that these ranks share. */
struct tess_fsdp_family {
    tess_fsdp *fsdp;
    const char *name; /* borrowed */
    int index;
    bool has_units;
    tess_fsdp_teams teams;
    tess_fsdp_facts facts;
    tess_fsdp_sequence sequence;
    tess_fsdp_slot *slots;
    tess_fsdp_window *windows;
    uint64_t n_windows_released;
    tess_fsdp_exchange *exchange; /* NULL: none yet */
    int bad_micro; /* local micro-batch in which the shard team found an addend that is not finite; -1: none */
};

/* Tells where memory comes from, and where work runs. */
typedef struct tess_fsdp_place {
    tess_runtime *runtime;
    tess_mem *mem;
    tess_device *device; /* shards, copies, windows and sums are in its memory; NULL: in the host's */
    tess_stream *stream, *own_stream;
    bool is_private; /* memory has no names */
} tess_fsdp_place;

/* Tells which part of a step is open. */
typedef struct tess_fsdp_progress {
    int n_micro, micro; /* micro-batches of the step, and the newest; micro -1: before the first */
    bool all_open;      /* all its micro-batches have begun */
    int n_passes, pass; /* passes of the micro-batch, and the newest */
    int64_t n_leaves;   /* micro-batches of all ranks that have rows; later ones are empty */
    tess_shares shares; /* assign micro-batches to ranks */
} tess_fsdp_progress;

/* Returns how many of the ranks' micro-batches number `micro` are not empty. */
static inline int tess_fsdp_leaves_of(const tess_fsdp_progress *step, int micro)
{
    int64_t left = step->n_leaves - micro * step->shares.total;
    return (int)(left < step->shares.total ? left : step->shares.total);
}

/* Returns how many gradients of the family's ranks are sums of these: each of `parts` micro-batches, or fewer. */
static inline int tess_fsdp_gradients_of(const tess_fsdp_progress *step, const tess_fsdp_family *family, int micro)
{
    return (tess_fsdp_leaves_of(step, micro) + family->teams.parts - 1) / family->teams.parts;
}

static inline bool tess_fsdp_is_last_pass(const tess_fsdp_progress *step)
{
    return step->pass == step->n_passes - 1;
}

/* The order in which units are used: of this pass and of the one before (fsdp_order.c). */
typedef struct tess_fsdp_order {
    int *now, *last; /* (capacity) entries are 2 * unit + use */
    int n_now, n_last, capacity;
} tess_fsdp_order;

struct tess_fsdp {
    tess_fsdp_topology topology;
    tess_fsdp_place place;
    tess_fsdp_policy policy;
    const tess_wire_form *reduce_form; /* gradients travel in it */
    tess_team *parts_team;             /* ranks that sum their parts of a micro-batch first (fsdp_parts.c), or NULL */
    int64_t step_size;                 /* expected micro-batches of a step, over all ranks */
    unsigned on_disk;                  /* pools that are kept on disk, or away from the device: 1 << tess_pool */
    tess_fsdp_family **families;
    int n_families;
    int32_t *persist_totals; /* (n_units) the accumulator that holds a unit's sum, by name; NULL: not noted */
    tess_home *home;         /* home of weights, sums and moments; NULL: before materialize */
    double *row_sums;        /* (n_rows) in the device's memory, for the norm; NULL: not yet */

    tess_name_index names; /* names of all parameters */
    tess_unit **units;
    int n_units, n_params;
    struct {
        tess_unit *unit;
        int index;
    } * params;       /* (n_params), all units in order */
    tess_span *spans; /* (n_params), as tess_fsdp_spans gave them last; NULL: never yet */

    tess_fsdp_state state;
    tess_fsdp_progress step;
    tess_fsdp_window *scratch;
    bool gradients_ready;
    bool uses_wire; /* the data ranks are on different hosts; set by materialize */
    struct {
        tess_unit_hook call;
        void *context;
    } * hooks; /* (n_hooks) the user's */
    int n_hooks;
    bool gradients_seen; /* the copies on the host are up to date */

    tess_unit *last_reduced; /* the unit whose sum over the shards has begun, but not yet the sum over the replicas;
                                NULL: none */

    tess_phase_clock *clock, own_clock;
    tess_fsdp_traffic traffic;

    tess_fsdp_order order;
};

static inline bool tess_fsdp_is_on_disk(const tess_fsdp *fsdp, tess_pool pool)
{
    return fsdp->on_disk >> pool & 1;
}

/* Whether peers read codes in a device's memory, because the master weights are away from it. */
static inline bool tess_fsdp_gathers_codes(const tess_fsdp_family *family)
{
    return family->fsdp->place.device != NULL && tess_fsdp_is_on_disk(family->fsdp, TESS_POOL_PARAMS) &&
           family->teams.n_shards > 1 && !family->facts.direct;
}

/* Whether each unit has a window of its own, through the whole micro-batch. */
static inline bool tess_fsdp_holds_windows(const tess_fsdp_family *family)
{
    return family->facts.defer || family->fsdp->step.n_passes > 1;
}

/* Whether the finished gradient is gathered from several ranks' totals. */
static inline bool tess_fsdp_gathers_gradient(const tess_fsdp_family *family)
{
    return family->facts.replicated || family->facts.divides;
}

/* fsdp_choose.c: computes the facts of a family. */
tess_fsdp_facts tess_fsdp_choose(const tess_fsdp_family *family);

/* fsdp_layout.c */
tess_status tess_fsdp_layout_make(tess_unit *unit);
/* The units that share windows, or gathered copies: their number, and the elements or bytes of the largest. */
typedef struct tess_fsdp_class {
    int n;
    size_t largest;
} tess_fsdp_class;
tess_fsdp_class tess_fsdp_windows_of(const tess_fsdp *fsdp, int size_class);
tess_fsdp_class tess_fsdp_copies_of(const tess_fsdp *fsdp, int size_class);
/* The part of a parameter that belongs to the ranks at `tp`. */
tess_box tess_fsdp_part(const tess_fsdp *fsdp, const tess_fsdp_param *p, int tp);
/* Returns the index in the whole parameter of element `index` of a box. */
int64_t tess_fsdp_element(const tess_fsdp_param *p, const tess_box *box, int64_t index);

/* fsdp_stream.c: the stream for computations is created when it is first needed. */
tess_status tess_fsdp_stream(tess_fsdp_place *place, tess_stream **stream);
tess_status tess_fsdp_host_stream(tess_fsdp_place *place,
                                  tess_stream **stream); /* the same, if it belongs to the host */

/* slot.c */
tess_status tess_fsdp_slot_take(tess_unit *unit, bool prefetch, tess_fsdp_slot **slot); /* NULL: none is free */
tess_status tess_fsdp_slot_wait(tess_fsdp_family *family, tess_fsdp_slot *slot);
void tess_fsdp_slots_stale(tess_fsdp *fsdp);
tess_status tess_fsdp_slots_settle(tess_fsdp *fsdp); /* no gather is under way */
tess_status tess_fsdp_slots_update(tess_fsdp *fsdp); /* opens the valid slots for writing, once no rank reads them */
tess_status tess_fsdp_slots_updated(tess_fsdp *fsdp);
void tess_fsdp_slots_free(tess_fsdp_family *family);

/* stash.c */
tess_status tess_fsdp_stashes_alloc(tess_fsdp *fsdp); /* collective over the shard teams */
void tess_fsdp_stashes_free(tess_fsdp *fsdp);
size_t tess_fsdp_stash_bytes(const tess_unit *unit);
tess_status tess_fsdp_stash_take(tess_unit *unit); /* called in a forward hook; no effect without groups */
tess_status tess_fsdp_gather_stashes(tess_unit *unit, tess_fsdp_slot *slot);

/* materialize.c: frees master weights, codes and the finished gradient */
void tess_fsdp_shards_free(tess_unit *unit);

/* fsdp_order.c */
typedef enum tess_fsdp_use { TESS_FSDP_FORWARD, TESS_FSDP_BACKWARD } tess_fsdp_use;
/* Notes that a unit is used. A unit that is used several times in a row, such as by its blocks, counts once. */
tess_status tess_fsdp_order_add(tess_fsdp_order *order, tess_mem *mem, int unit, tess_fsdp_use use);
/* Returns the number of the unit that is used `ahead` uses after the newest one: in the order of the previous pass,
 * otherwise in the order of the n_units units. -1: none. */
int tess_fsdp_order_predict(const tess_fsdp_order *order, int n_units, int ahead, tess_fsdp_use *use);
void tess_fsdp_order_restart(tess_fsdp_order *order); /* a pass begins */
void tess_fsdp_order_free(tess_fsdp_order *order, tess_mem *mem);

/* gather.c */
tess_status tess_fsdp_gather(tess_unit *unit, tess_fsdp_use use);
tess_status tess_fsdp_gather_ahead(tess_unit *unit); /* gathers a unit ahead of its use, if there is memory for it */
void tess_fsdp_release(tess_unit *unit);             /* releases the gathered copy when no hook holds it any more */

static inline bool tess_fsdp_has_param(const tess_fsdp *fsdp, int index)
{
    return index >= 0 && index < fsdp->n_params;
}

/* Returns the parameter with this index among all units. */
static inline const tess_fsdp_param *tess_fsdp_param_at(const tess_fsdp *fsdp, int index)
{
    return &fsdp->params[index].unit->params[fsdp->params[index].index];
}

/* Returns the bytes of a row of the gathered copy. */
static inline size_t tess_fsdp_row_bytes(const tess_fsdp_param *p)
{
    return p->form->row_bytes(p->form, p->row);
}

/* Whether the codes of a unit are its gathered copy. */
static inline bool tess_fsdp_reads_codes(const tess_unit *unit)
{
    return unit->layout.coded && unit->family->teams.n_shards == 1;
}

/* fsdp_codes.c: writes rows of master weights in the form of the gathered copy; encodes the own rows of a coded unit
 * again if the weights have changed. */
tess_status tess_fsdp_convert_rows(tess_fsdp_place *place, const tess_fsdp_param *p, const float *rows, int64_t n,
                                   void *to);
tess_status tess_fsdp_codes_refresh(tess_unit *unit);
/* Fills the own rows of a narrow parameter. */
tess_status tess_fsdp_codes_fill(tess_unit *unit, const tess_fsdp_param *p, tess_fill_fn fill, void *context);

/* fsdp_passes.c: `begin` returns the memory for the unit's gradients of this pass; `end` adds them to the gradients
 * of the previous passes. */
tess_status tess_fsdp_gradient_begin(tess_unit *unit);
float *tess_fsdp_gradient(const tess_unit *unit, const tess_fsdp_param *p); /* between the two */
tess_status tess_fsdp_gradient_end(tess_unit *unit);
/* fsdp_parts.c: replaces this pass's gradient by the sum over the ranks that have parts of it, and clears the leaf of
 * all of these ranks but one. */
tess_status tess_fsdp_parts_sum(tess_unit *unit);
tess_status tess_fsdp_parts_keep_one(tess_unit *unit);

/* fsdp_turns.c */
tess_status tess_fsdp_window_take(tess_unit *unit);

/* fsdp_window.c: `create` adds a free window of the unit's size class to those of fsdp. */
tess_status tess_fsdp_window_create(tess_unit *unit, tess_fsdp_window **window);
void tess_fsdp_window_release(tess_unit *unit);
tess_status tess_fsdp_scratch_take(tess_unit *unit);
void tess_fsdp_windows_free(tess_fsdp_family *family, tess_fsdp_window **list);
float *tess_fsdp_window_floats(const tess_fsdp_window *window);

/* fsdp_memory.c: functions of windows and of gathered copies are collective */
tess_status tess_fsdp_copy_alloc(tess_fsdp_family *family, size_t bytes, void **copy);
void tess_fsdp_copy_free(tess_fsdp_family *family, void *copy);
tess_status tess_fsdp_window_alloc(tess_fsdp_family *family, size_t bytes, void **window);
void tess_fsdp_window_free(tess_fsdp_family *family, void *window);

/* The codes of a unit, if it has any. */
tess_status tess_fsdp_codes_alloc(tess_unit *unit);
void tess_fsdp_codes_free(tess_unit *unit);

/* Memory that only this rank uses, on the device or on the host. */
tess_status tess_fsdp_alloc(const tess_fsdp_place *place, tess_pool pool, size_t elements, const char *what,
                            float **out);
void tess_fsdp_free(const tess_fsdp_place *place, float *memory);

/* Makes device memory readable for the team's ranks in collectives, until it is hidden again. Host memory needs no
 * such call. Collective over the team. */
tess_status tess_fsdp_show(tess_fsdp_family *family, tess_team *team, float *memory, size_t elements, const char *what);
void tess_fsdp_hide(tess_fsdp_family *family, tess_team *team, float *memory);

/* Allocates float32 arrays of a unit at their home. The name is made of `what` and `number` (-1: no number). */
tess_status tess_fsdp_persist_alloc(tess_unit *unit, tess_pool pool, const char *what, int number, size_t elements,
                                    float **out, bool *found);
void tess_fsdp_persist_free(const tess_unit *unit, float *memory);

/* Shows what other ranks read of this rank's shard, and hides it. Collective over the shard team and the replicas. */
tess_status tess_fsdp_show_shard(tess_unit *unit);
void tess_fsdp_hide_shard(tess_unit *unit);

/* fsdp_homes.c: bring, wait for and let go master weights, the sums that steps touch, and the finished gradient. For
 * state that computations find at home they do nothing. sums_here brings and waits, and sets the steps' pointers to
 * addresses for computations; sum_at returns that of a sum that is here. */
tess_status tess_fsdp_home_open(tess_fsdp *fsdp);
void tess_fsdp_master_fetch(const tess_unit *unit, tess_page_use use);
tess_status tess_fsdp_master_wait(tess_unit *unit, tess_page_use use);
void tess_fsdp_master_release(tess_unit *unit);
void tess_fsdp_sums_fetch(const tess_unit *unit, const tess_leaf_step *steps, int n_steps);
tess_status tess_fsdp_sums_here(const tess_unit *unit, tess_leaf_step *steps, int n_steps);
float *tess_fsdp_sum_at(const tess_unit *unit, float *sum);
void tess_fsdp_sums_release(const tess_unit *unit); /* all of the unit */
void tess_fsdp_gradient_fetch(tess_unit *unit, tess_page_use use);
tess_status tess_fsdp_gradient_wait(tess_unit *unit, tess_page_use use);
void tess_fsdp_gradient_release(tess_unit *unit);
/* Returns the host's memory of a block of state. */
float *tess_fsdp_host_copy(const tess_fsdp *fsdp, const float *state);

/* fsdp_persist.c: notes where the sums are, once they are complete. */
tess_status tess_fsdp_persist_note_totals(tess_fsdp *fsdp);

/* fsdp_clock.c */
tess_status tess_fsdp_stamps_alloc(tess_fsdp_family *family); /* collective, as the next function is */
void tess_fsdp_stamps_free(tess_fsdp_family *family);
void tess_fsdp_stamp_now(tess_fsdp_family *family,
                         uint64_t number); /* notes that this rank has reached collective `number` */
/* Waits for the collective, and counts the part of the wait in which peers had not yet arrived. */
tess_status tess_fsdp_wait(tess_fsdp_family *family, tess_work **work, uint64_t number);

/* Whether every rank of the tp team has some columns of the parameter's rows, so that their parts, joined in order, are
 * not the whole. */
static inline bool tess_fsdp_cuts_rows(const tess_fsdp *fsdp, const tess_fsdp_param *p)
{
    return fsdp->topology.n_tp > 1 && p->tp.kind == TESS_SHARD && p->tp.dim > 0;
}

/* fsdp_cut_rows.c: adds the squares of `rows` (host memory), the primary rows of such a parameter. Collective over
 * the tp team. */
tess_status tess_fsdp_add_cut_rows(const tess_fsdp_family *family, const tess_fsdp_param *p, const float *rows,
                                   tess_exact_sum *sum);

/* shard.c: the shard in the memory of the computing device */
tess_status tess_fsdp_shard_in_place(const tess_fsdp *fsdp, int index, tess_shard *shard);

/* fsdp_matrices.c: creates the object that assembles whole matrices from their parts, if the optimizer's options
 * need them. Collective over the mesh. */
tess_status tess_fsdp_exchange_matrices(tess_fsdp *fsdp, const tess_optimizer_options *options,
                                        tess_matrix_exchange *exchange);

/* bad_gradient.c: called at the beginning of a step, and when the unit's reduction over the shards is complete. */
void tess_fsdp_bad_gradient_forget(tess_fsdp *fsdp);
void tess_fsdp_bad_gradient_note(const tess_unit *unit);

/* fsdp_sums.c: the number of sums that a unit keeps for a step of `n_leaves` micro-batches of all ranks, of which
 * `leaf` are a leaf of the counter, and their memory */
int tess_fsdp_sums_needed(const tess_fsdp_teams *teams, int leaf, int64_t n_leaves);
tess_status tess_fsdp_sums_grow(tess_fsdp *fsdp, int64_t n_leaves);
void tess_fsdp_sums_free(tess_unit *unit);
/* Plan additions: of n leaves that arrive together, which a collective adds in the first n_sent steps; of a leaf that
 * is already in an unused sum. tess_leaf_total plans the additions of all that is left. `add` runs the steps that no
 * collective has run. */
void tess_fsdp_sums_push(tess_fsdp_sums *sums, int n);
void tess_fsdp_sums_place(tess_fsdp_sums *sums, float *leaf);
tess_status tess_fsdp_sums_add(tess_fsdp_sums *sums, tess_stream *stream);

/* fsdp_reduce.c: the way of a gradient from the engine to the sums. Chosen once for each unit. */
struct tess_fsdp_way {
    tess_status (*begin)(tess_unit *unit);   /* may choose memory other than a window for a gradient; NULL: a window */
    tess_status (*end)(tess_unit *unit);     /* the gradient is complete on this rank */
    tess_status (*send)(tess_unit *unit);    /* begins its sum over the ranks */
    tess_status (*combine)(tess_unit *unit); /* begins the sum over the replicas, after that over the shards, or NULL */
    tess_status (*finish)(tess_unit *unit);  /* the collectives are complete: adds what they left to older sums */
    tess_status (*send_part)(tess_unit *unit); /* send, for a micro-batch that does not reach all ranks; NULL: `send` */
};
const tess_fsdp_way *tess_fsdp_way_of(const tess_fsdp_family *family);

static inline bool tess_fsdp_reduction_is_open(const tess_fsdp_reduction *r)
{
    return r->work != NULL || r->replica_work != NULL;
}

void tess_fsdp_reduction_poll(const tess_fsdp_reduction *r); /* lets its collectives advance */
void tess_fsdp_reduction_drop(tess_fsdp_reduction *r);       /* waits until they complete or fail */

tess_status tess_fsdp_reduce(tess_unit *unit); /* sends the unit's gradient */
/* Begins the sum over the replicas for the unit that was issued last, if it has not begun. */
tess_status tess_fsdp_reduce_flush(tess_fsdp *fsdp);
/* Waits for the unit's reduction and carries in the counter. Does nothing if no reduction is under way. */
tess_status tess_fsdp_reduce_finish(tess_unit *unit);
tess_status tess_fsdp_reduce_total(tess_unit *unit); /* adds up the counter's levels */
/* Fetch from disk the sums that the unit's next leaves, or the end of the step, will be added to. */
void tess_fsdp_reduce_ahead(const tess_unit *unit);
void tess_fsdp_reduce_total_ahead(const tess_unit *unit);

/* fsdp_exchange.c: replaces the sum over replicas if that sum is no subtree. tess_fsdp_exchange_steps plans what the
 * reduce-scatter over the shards leaves; tess_fsdp_exchange_add does the rest after it. */
/* Whether any of a step's n_leaves micro-batches is exchanged. */
bool tess_fsdp_exchanges_any(const tess_fsdp_family *family, int64_t n_leaves);
tess_status tess_fsdp_exchange_alloc(tess_fsdp_family *family);
void tess_fsdp_exchange_free(tess_fsdp_family *family);
const tess_leaf_step *tess_fsdp_exchange_steps(const tess_fsdp_family *family, int micro, int *n_steps);
tess_status tess_fsdp_exchange_add(tess_unit *unit, tess_stream *stream);

#endif
