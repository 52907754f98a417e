/* The executor's insides: the plan of its memory (executor_plan.c), the walk over the units (executor_walk.c), and the
 * calls that start walks (executor_calls.c). */
#ifndef TESS_NN_EXECUTOR_IMPL_H
#define TESS_NN_EXECUTOR_IMPL_H

#include "base/mem/pager.h"
#include "device/device.h"
#include "nn/layers/layers.h"

/* How far a block of the model has come on a slot. */
typedef enum tess_unit_state { TESS_UNIT_EMPTY, TESS_UNIT_FORWARD, TESS_UNIT_OWES_WEIGHTS } tess_unit_state;

/* Memory of one block on a slot: values saved in forward for backward, and work space. */
typedef struct tess_unit_memory {
    tess_layer_saved saved; /* the head has h and input_stats alone */
    tess_layer_work work;
    void *own_rows; /* the rows of h that are kept: h itself is the slot's, for forward and backward; NULL: h is kept */
    char *on_disk;  /* the values that a layer keeps, if they are on disk; else NULL */
    size_t disk_bytes;
    void *gate, *up;  /* there, backward reads those of `saved` from copies, which layers share: it leaves gradients in
                       * their place, and pages that nobody writes leave without being written; NULL: it does not */
    const void *dout; /* the caller's dh3, for the last unit of a range without the head */
    tess_unit_state state;
} tess_unit_memory;

/* The window of a tied embedding, which the head's backward opens and the embedding's closes, without n_tables. */
typedef struct tess_open_table {
    bool is_open;
    int slot;
    const void *const *w;
    float *const *dw;
} tess_open_table;

/* Heads' gradients of a tied table that wait for the embedding's part, in the order of the heads. */
typedef struct tess_waiting_tables {
    float *room;   /* (n_tables, count) */
    int64_t count; /* elements of this rank's table */
    int first, n;  /* n gradients wait, from `first` on, in a ring */
    float *dw[2];  /* the gradient that the head writes, by place in unit 0 */
} tess_waiting_tables;

struct tess_executor {
    tess_stream *stream;
    const tess_model *model;
    tess_hooks hooks;
    tess_executor_options options;
    void *memory;                       /* all activations, in the device's memory */
    void *host_memory;                  /* descriptors, and what a token loss is shown */
    tess_pager *pager;                  /* moves what is on disk; NULL: nothing is */
    void *disk;                         /* all bytes on disk */
    size_t disk_bytes, largest_on_disk; /* bytes on disk in all, and of the largest layer, as planned */
    tess_unit_memory *units;            /* (n_slots, n_units) */
    tess_slot_units *slots;             /* (n_slots), or NULL */
    tess_points points;                 /* none if the degree is 1 */
    tess_split_work split;
    tess_low_rank_work low_rank;
    void *rounded;        /* tess_layer_call.rounded of layers */
    tess_layer_work work; /* the part that all units share */
    float **none;         /* NULL for every parameter of a unit: frozen */
    tess_open_table open;
    tess_waiting_tables tables;
    tess_head_work head;
    float *cos_table, *sin_table;
    int32_t *ids, *pos, *targets; /* (max_tokens) the current batch's */
    tess_watch watch;             /* the caller's; see NULL: none */
    tess_watch shown; /* the watch that layers show their tensors to: the caller's, or one that fetches for it */
    tess_status seen; /* the first failure of a fetch for the watch */
};

/* Places all activations from `base` and, what is on disk, `disk` on, and sets the pointers (units[] only if it
 * exists). NULL only counts. Sets disk_bytes and largest_on_disk. Returns the bytes from base on, or SIZE_MAX if they
 * overflow.
 */
size_t tess_executor_plan(tess_executor *executor, char *base, char *disk);

/* ---- Pages of what is kept on disk (executor_paging.c): each call is about one unit, and one ahead of it ---- */
/* Before the forward of a unit of the range. */
tess_status tess_executor_page_forward(tess_executor *executor, const tess_range *range, int unit);
/* Before the backward of a unit, and ahead of that of the range's last one. */
tess_status tess_executor_page_backward(tess_executor *executor, const tess_range *range, int unit,
                                        tess_backward_part part);
void tess_executor_page_ahead(tess_executor *executor, const tess_range *range, int unit, tess_backward_part part);
/* Nothing of the range's forward, or backward, reads the unit any more. */
void tess_executor_page_done(tess_executor *executor, const tess_range *range, int unit);
/* Before the stream is put where the unit reads it, or an evaluation works in its memory. */
void tess_executor_page_input(const tess_executor *executor, int slot, int unit);

static inline tess_unit_memory *tess_executor_memory(const tess_executor *executor, int slot, int unit)
{
    return &executor->units[slot * executor->model->n_units + unit];
}

static inline tess_block_kind tess_executor_kind(const tess_executor *e, int unit)
{
    return e->model->blocks[unit].kind;
}

static inline const char *tess_executor_title(const tess_executor *e, int unit)
{
    return tess_executor_kind(e, unit) == TESS_BLOCK_EMBEDDING ? "embedding" : tess_model_unit_name(e->model, unit);
}

static inline int tess_executor_slots(const tess_executor_options *options)
{
    return options->n_slots > 1 ? options->n_slots : 1;
}

/* The stream's rows, over the ranks that share the model. */
static inline tess_cut tess_executor_rows(const tess_executor_options *options, int64_t n_tokens)
{
    return (tess_cut){n_tokens, options->sequence_parallel ? 1 : 0};
}

/* The units that have memory in a slot. */
static inline tess_slot_units tess_executor_units_of(const tess_executor *executor, int slot)
{
    const tess_slot_units *given = executor->options.slot_units;
    return given != NULL ? given[slot] : (tess_slot_units){0, executor->model->n_units};
}

/* Groups of this unit's layer that backward computes again. */
unsigned tess_executor_recomputes(const tess_executor *executor, int unit);

/* No backward reads what the unit computes. */
static inline bool tess_executor_is_frozen(const tess_executor *executor, int unit)
{
    return !executor->options.train || unit < executor->options.first_trainable_unit;
}

/* A head's gradient of a tied table comes before the embedding's. */
static inline bool tess_executor_trains_table(const tess_executor *executor)
{
    return executor->options.first_trainable_unit == 0 && tess_model_trains_table(executor->model);
}

/* SELECTIVE: pairs of a layer and a group that may be dropped. */
int tess_executor_count_choices(const tess_executor *executor);

/* A layer rotates q and k. */
bool tess_executor_rotates(const tess_executor *executor);

/* Checks sizes, ids, positions and targets, and gives the device what its kernels read of them. */
tess_status tess_executor_take_batch(tess_executor *executor, const tess_batch *batch);

/* ---- The walk (executor_walk.c) ---- */
/* The aim of a forward: a backward later, or its result alone. In the second case nobody reads what layers keep, so all
 * layers of the range work in the memory of the last one: it stays in cache, and nothing goes to disk. */
typedef enum tess_walk_aim { TESS_WALK_FOR_BACKWARD, TESS_WALK_FOR_RESULT } tess_walk_aim;

/* The task of the head in evaluation: log-probabilities of targets, the logits of some rows, or both; or values. */
typedef struct tess_head_task {
    float inv_temperature;
    float *logprob, *entropy; /* NULL: not wanted */
    const int32_t *rows;
    int64_t n_rows;
    float *logits, *values; /* NULL: not wanted */
} tess_head_task;

/* Runs the units of a range. A range's head only gets its input: it runs in backward or evaluation. Without a batch the
 * hooks alone are called. */
tess_status tess_executor_forward_range(tess_executor *executor, const tess_range *range, const void *in, void *out,
                                        tess_walk_aim aim);
tess_status tess_executor_backward_range(tess_executor *executor, const tess_range *range,
                                         const tess_backward *backward);
/* Adds the embedding's part to the oldest of the tied table's gradients that wait. */
tess_status tess_executor_table_backward(tess_executor *executor, const tess_batch *batch, const void *dstream);
tess_status tess_executor_evaluate_head(tess_executor *executor, const tess_range *range, const tess_head_task *task);

#endif
