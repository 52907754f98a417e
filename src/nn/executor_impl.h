/* Declarations that the executor's files share: the plan of its memory (executor_plan.c), the walk over the units
 * (executor_walk.c), and the calls that start walks (executor_calls.c). */
#ifndef TESS_NN_EXECUTOR_IMPL_H
#define TESS_NN_EXECUTOR_IMPL_H

#include "base/mem/pager.h"
#include "device/device.h"
#include "nn/layers/layers.h"

/* The progress of a block on a slot. OWES_WEIGHTS: the input part of a backward has run, the weight part has not. */
typedef enum tess_unit_state { TESS_UNIT_EMPTY, TESS_UNIT_FORWARD, TESS_UNIT_OWES_WEIGHTS } tess_unit_state;

/* Arguments of a part's functions; dout is set at each call. */
typedef struct tess_part_memory {
    tess_tensors tensors;
    /* The part's struct of tensors for backward. If the block is on disk, it has copies of the tensors that backward
     * overwrites, in memory that all blocks share. So the pages on disk need not be written back. */
    void *own_again;
} tess_part_memory;

/* Memory of one block on a slot: values saved in forward for backward, and work space. */
typedef struct tess_unit_memory {
    tess_part_memory *parts; /* (n_parts of the block) */
    void *dout;              /* (R, C) gradient of the unit's output */
    /* This rank's rows of the block's input, if only they are kept: the input itself is then memory of the slot; NULL:
     * all of it is kept */
    void *own_rows;
    char *on_disk; /* the block's kept values, if they are on disk; else NULL */
    size_t disk_bytes;
    /* The caller's gradient of the unit's output, for the last unit of a range without the head */
    const void *given;
    tess_unit_state state;
} tess_unit_memory;

/* The open parameter window of a tied embedding, if n_tables is 0: the head's backward opens it, the embedding's
 * closes it. */
typedef struct tess_open_table {
    bool is_open;
    int slot;
    const void *const *w;
    float *const *dw;
} tess_open_table;

/* Gradients of a tied table that heads have written and that still lack the embedding's part. They form a ring of
 * n_tables places, in the order of the heads. The leaves of a gradient stay apart. */
typedef struct tess_waiting_tables {
    float *room;   /* (n_tables, leaves of this rank, count) memory of the gradients */
    int64_t count; /* elements of this rank's table */
    int first, n;  /* n gradients wait, from place `first` of the ring on */
    float *dw[2];  /* gradient buffers for the head: dw[i] belongs to parameter i of the table's unit */
} tess_waiting_tables;

struct tess_executor {
    tess_stream *stream;
    const tess_model *model;
    tess_hooks hooks;
    tess_executor_options options;
    void *memory;                       /* all activations, in the device's memory */
    void *host_memory;                  /* descriptors of sequences, and the rows that a token loss reads and writes */
    tess_pager *pager;                  /* moves values between disk and memory; NULL: nothing is on disk */
    void *disk;                         /* memory that is paged to disk */
    size_t disk_bytes, largest_on_disk; /* planned bytes on disk: of all layers, and of the largest one */
    tess_unit_memory *units;            /* (n_slots, n_units) memory of each unit on each slot */
    tess_part_memory *parts;            /* memory of their parts */
    char *works;                        /* (n_slots, 2, work_bytes of the model) the parts' structs of tensors */
    char *hosts;                      /* (n_slots, host_bytes of the model times leaves) what parts keep for the host */
    tess_slot_units *slots;           /* (n_slots) the units of each slot; NULL: all units */
    tess_points points;               /* exchanges between ranks; empty if the degree is 1 */
    tess_expert_points expert_points; /* the same for ranks that divide the experts */
    tess_split_work split;
    tess_points readers;            /* the same for ranks that read texts together */
    void *context_work, *read_rows; /* members of tess_layer_call */
    float *leaf_room, *leaf_tables;
    tess_low_rank_work low_rank;
    void *rounded, *fusing; /* work space for members of tess_layer_call */
    tess_attention_seq *seqs;
    float *graded;
    void *y, *branch, *dstream; /* work space that all units share: tess_tensors.y and branch; gradient of the stream */
    void *daside;               /* (R, C) the din of parallel parts; NULL: there are none */
    float **none;               /* gradients of a frozen unit: NULL for every parameter */
    tess_open_table open;
    tess_waiting_tables tables;
    tess_rope_factors ropes[TESS_N_ROPES];
    int32_t *inputs[TESS_N_INPUTS]; /* (max_tokens) each, of the current batch */
    tess_watch watch;               /* the caller's watch; member `see` NULL: none */
    tess_watch shown; /* the watch that layers call: the caller's, or one that first copies tensors to the host */
    tess_status seen; /* the first error of a copy for the watch, or TESS_OK */
};

/* Lays out all activations from `base` on, and those on disk from `disk` on. Sets the pointers (units[] only if it
 * exists), disk_bytes and largest_on_disk. If `base` is NULL, only counts. Returns the bytes used from `base` on, or
 * SIZE_MAX if they overflow. */
size_t tess_executor_plan(tess_executor *executor, char *base, char *disk);

/* Writes the sizes that name the rows and columns of the tensors of a unit's part, for a batch of n_tokens. */
void tess_executor_sizes(const tess_executor *executor, int unit, int part, int64_t n_tokens,
                         int64_t sizes[TESS_N_DIMS]);

/* ---- Pages of values on disk (executor_paging.c). Calls are about one unit; some also fetch the next one. ---- */
/* Call it before the forward of a unit of the range. Waits for the unit's pages. */
tess_status tess_executor_page_forward(tess_executor *executor, const tess_range *range, int unit);
/* tess_executor_page_backward: call it before the backward of a unit; it waits for the unit's pages
 * tess_executor_page_ahead: starts the fetch of a unit without waiting */
tess_status tess_executor_page_backward(tess_executor *executor, const tess_range *range, int unit,
                                        tess_backward_part part);
void tess_executor_page_ahead(tess_executor *executor, const tess_range *range, int unit, tess_backward_part part);
/* Call it when the range's forward, or backward, no longer reads the unit. */
void tess_executor_page_done(tess_executor *executor, const tess_range *range, int unit);
/* Call it before writing the stream to the unit's input, or before an evaluation uses the unit's memory. */
void tess_executor_page_input(const tess_executor *executor, int slot, int unit);

static inline tess_unit_memory *tess_executor_memory(const tess_executor *executor, int slot, int unit)
{
    return &executor->units[slot * executor->model->n_units + unit];
}

/* Whether the unit reads a stream, leaves one, or both. */
static inline bool tess_executor_reads(const tess_executor *e, int unit)
{
    return !e->model->blocks[unit].parts[0].part->source;
}

static inline bool tess_executor_leaves(const tess_executor *e, int unit)
{
    const tess_block *block = &e->model->blocks[unit];
    return !block->parts[block->n_parts - 1].part->sink;
}

static inline bool tess_executor_passes(const tess_executor *e, int unit)
{
    return tess_executor_reads(e, unit) && tess_executor_leaves(e, unit);
}

/* The last unit of a range that leaves a stream; less than range->begin if there is none. */
static inline int tess_executor_last(const tess_executor *e, const tess_range *range)
{
    return tess_executor_leaves(e, range->end - 1) ? range->end - 1 : range->end - 2;
}

static inline const char *tess_executor_title(const tess_executor *e, int unit)
{
    const tess_block *block = &e->model->blocks[unit];
    return block->layer >= 0 ? block->name : block->parts[0].part->name;
}

/* The number of ranks that divide the tokens of a batch, and this rank's leaves of a sum over its tokens. */
static inline int tess_executor_context_ranks(const tess_executor_options *options)
{
    return options->context.n_leaves > 1 ? options->context.points.degree : 1;
}

static inline int tess_executor_own_leaves(const tess_executor_options *options)
{
    return options->context.n_leaves > 1 ? options->context.n_leaves / options->context.points.degree : 1;
}

static inline int tess_executor_slots(const tess_executor_options *options)
{
    return options->n_slots > 1 ? options->n_slots : 1;
}

/* How the ranks that share the model cut the stream's rows. */
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

/* Returns the groups of this unit's layer that backward computes again. */
unsigned tess_executor_recomputes(const tess_executor *executor, int unit);

/* Whether no backward reads what the unit computes. */
static inline bool tess_executor_is_frozen(const tess_executor *executor, int unit)
{
    return !executor->options.train || unit < executor->options.first_trainable_unit;
}

/* Whether a tied table trains here: the head's gradient of it comes before the embedding's. */
static inline bool tess_executor_trains_table(const tess_executor *executor)
{
    return executor->options.first_trainable_unit <= executor->model->table_unit &&
           tess_model_trains_table(executor->model);
}

/* SELECTIVE: the number of pairs of a layer and a group that may be dropped. */
int tess_executor_count_choices(const tess_executor *executor);

/* Elements of each table of a rotation; 0: no layer reads it. */
size_t tess_executor_rope_count(const tess_executor *executor, tess_rope_table table);

/* Checks the batch's sizes, ids, positions and targets, and uploads the values that kernels read. */
tess_status tess_executor_take_batch(tess_executor *executor, const tess_batch *batch);

/* ---- The walk (executor_walk.c) ---- */
/* The purpose of a forward: a later backward, or only its result. In the second case nothing reads the values that
 * layers keep. So all layers of the range work in the memory of the last one: it stays in cache, and nothing is
 * written to disk. */
typedef enum tess_walk_aim { TESS_WALK_FOR_BACKWARD, TESS_WALK_FOR_RESULT } tess_walk_aim;

/* Run the units of a range. Forward only stores the head's input; the head itself runs in backward or evaluation.
 * Without a batch only the hooks are called. */
tess_status tess_executor_forward_range(tess_executor *executor, const tess_range *range, const void *in, void *out,
                                        tess_walk_aim aim);
tess_status tess_executor_backward_range(tess_executor *executor, const tess_range *range,
                                         const tess_backward *backward);
/* Adds the embedding's part to the oldest waiting gradient of the tied table. */
tess_status tess_executor_table_backward(tess_executor *executor, const tess_batch *batch, const void *dstream);
tess_status tess_executor_evaluate_head(tess_executor *executor, const tess_range *range, const tess_head_task *task);

#endif
