/* A model: parameters grouped into units, and blocks (embedding, layers, head) that run over a batch.
 *
 * nn does not know comm. Around each unit the executor calls tess_hooks, in which ranks may communicate: hooks gather
 * parameters and reduce gradients (parallel/), or do nothing (tess_static_hooks, for one process). */
#ifndef TESS_NN_MODEL_H
#define TESS_NN_MODEL_H

#include "base/core/exact_sum.h"
#include "device/stream.h"
#include "nn/model_config.h"
#include "nn/points.h"
#include "nn/token_loss.h"

enum { TESS_PARAM_NAME_SIZE = 96, TESS_UNIT_NAME_SIZE = 32 };

typedef enum tess_init { TESS_INIT_NORMAL, TESS_INIT_ZERO, TESS_INIT_ONE, TESS_INIT_UNIFORM } tess_init;

/* The shape of the whole parameter. Ranks that share the model (or that divide a stack of experts) each have a part of
 * dimension `dim`, in multiples of `unit` (points.h). Unit 0: each rank has the whole parameter. */
typedef struct tess_param_slice {
    tess_shape whole;
    int dim;
    int64_t unit;
} tess_param_slice;

/* One parameter, in the layout of HF files: Linear is (out, in), and GPT-2's Conv1D stays (in, out). */
typedef struct tess_param {
    char name[TESS_PARAM_NAME_SIZE]; /* "model.layers.3.mlp.up_proj.weight" */
    tess_shape shape;                /* shape of this rank's part */
    tess_param_slice slice;
    tess_init init;
    float init_std; /* NORMAL: the standard deviation; UNIFORM: the bound of [-bound, bound) */
    bool decay;     /* weight decay applies: to matrices and embeddings, not to norms and biases */
    bool hidden;    /* a matrix of a layer, or of its adapter: Muon updates it, adamw8bit keeps its moments in 8 bits */
    bool beside;    /* part of a value head next to a language model: only trl's files contain it */
    /* Part of a LoRA adapter: "model.layers.3.mlp.up_proj.lora_A.weight" (rank, in), or lora_B (out, rank) */
    bool adapter;
    bool expert;  /* a matrix of an expert or its adapter, which expert parallelism gives to one rank */
    bool stacked; /* an `expert` that is all experts of a layer; ranks that divide them cut dimension 0 */
    bool frozen;  /* the parameter gets no gradient */
    bool wide;    /* the bias of a router: every copy of it is float32, whatever the compute dtype */
    /* A copy of a tied table for the embedding; the part with the head owns the table and its whole gradient */
    bool copy;
    int unit;
    float idle; /* the share of tokens that do not read it: most tokens do not read an expert */
} tess_param;

/* The type of the parameter's copies in a model that computes with `dtype`. */
static inline tess_dtype tess_param_dtype(const tess_param *param, tess_dtype dtype)
{
    return param->wide ? TESS_F32 : dtype;
}

/* Whether training never changes the parameter. A router's bias changes without a gradient. */
static inline bool tess_param_is_constant(const tess_param *param)
{
    return param->frozen && !param->wide;
}

typedef struct tess_model tess_model;

/* Creates a model. If config->lora is set, every adapted linear map has two more parameters, and all other
 * parameters are frozen.
 * TESS_E_INVALID: a target of lora is no linear map of a layer; the message lists them
 *
 * Units in forward order: 0 the embedding(s), 1..L the layers, L+1 the final norm and head. With tied weights the
 * head uses unit 0 as well. A model holds descriptions only, no weights. */
tess_status tess_model_create(tess_mem *mem, const tess_model_config *config, tess_model **model);

/* Creates the description of a model that a program outside of the library computes: units by name, and their
 * parameters (n_params), unit by unit. Each unit counts as a layer. No executor can run it. */
tess_status tess_model_create_described(tess_mem *mem, const char *const *units, int n_units, const tess_param *params,
                                        int n_params, tess_model **model);

/* Returns in *lora the adapter's description, with the names of all maps in place of all-linear. */
tess_status tess_model_lora(const tess_model *model, tess_lora *lora);

/* Freezes the parameter: it gets no gradient. */
void tess_model_freeze(tess_model *model, int index);
/* The first unit with a parameter that trains. Units below it need no backward. n_units: no parameter trains. */
int tess_model_first_trainable_unit(const tess_model *model);
/* Both are about tied weights that train.
 * tess_model_trains_table: whether this part holds the table's gradient
 * tess_model_copies_table: whether another part holds it, and needs the gradient of the stream at this part's
 * embedding */
bool tess_model_trains_table(const tess_model *model);
bool tess_model_copies_table(const tess_model *model);
/* Whether a parameter of the unit gets a gradient in this part. */
bool tess_model_unit_trains(const tess_model *model, int unit);

/* The part of a model that one rank of a pipeline holds: some layers, the embedding if it has the first one, and the
 * head if it has the last one. Its units count from 0. Names, initial values and layers' numbers stay those of the
 * whole model.
 *
 * Tied weights in two parts: the part with the head owns the table, under its own name, in a unit 0 that no forward
 * runs. The part with the embedding has a copy (tess_param.copy), which gets no gradient there. The table's gradient
 * is one sum: the head's part first, then the embedding's, which tess_executor_backward_table adds. */
typedef struct tess_model_part {
    int64_t first_layer, n_layers;
    bool embedding, head;
    /* (n_layers) ascending numbers of the layers, if they are not consecutive from first_layer; else NULL. Only
     * create reads them */
    const int64_t *layers;
    /* This rank's share of the layers, as one of `tp_degree` ranks with tensor parallelism; 0: one rank.
     * Feed-forward channels, and key heads together with their query heads, are distributed as tess_shard_rows says.
     * So shares may be uneven or empty. If there are more ranks than key heads, key heads and query heads are
     * distributed separately. Columns of the embedding's tables and of the head are distributed, too. Every rank has
     * all norms, and all biases of o and down. */
    int tp_rank, tp_degree;
    /* This rank's share of the experts of each layer, as one of `ep_degree` ranks with expert parallelism; 0: one
     * rank. Each has as many whole experts. The ranks are those with tensor parallelism, times the neighbours that
     * have other micro-batches: ep_rank = neighbour * tp_degree + tp_rank. */
    int ep_rank, ep_degree;
} tess_model_part;

/* Creates a part of a model. TESS_E_INVALID: no such layers or rank, or an embedding without the first layer, or a
 * head without the last one */
tess_status tess_model_create_part(tess_mem *mem, const tess_model_config *config, const tess_model_part *part,
                                   tess_model **model);
void tess_model_destroy(tess_model **model);
const tess_model_config *tess_model_get_config(const tess_model *model);
const tess_model_part *tess_model_get_part(const tess_model *model); /* its `layers` is NULL */
/* Elements of a row of keys, or of values, in a layer's cache. */
int64_t tess_model_cached_row(const tess_model *model);
int tess_model_n_params(const tess_model *model);
const tess_param *tess_model_param(const tess_model *model, int index);
int tess_model_find_param(const tess_model *model, const char *name); /* index of the parameter; -1: no such name */
int tess_model_n_units(const tess_model *model);
/* Whether the parameter is the weight of linear maps of a layer that each read whole rows. GPT-2's c_attn is not. */
bool tess_model_owns_rows(const tess_model *model, int index);
const char *tess_model_unit_name(const tess_model *model, int unit);
/* the layer's number in the whole model; -1: no layer */
int64_t tess_model_unit_layer(const tess_model *model, int unit);
/* Tells the log of the stream's device that the next operations belong to this unit. */
void tess_model_name_unit(const tess_model *model, int unit, tess_stream *stream);
/* Parameters of a unit are contiguous: [first, first + n). */
void tess_model_unit_params(const tess_model *model, int unit, int *first, int *n);
int64_t tess_model_count(const tess_model *model); /* total number of parameter elements */
double
tess_model_count_active(const tess_model *model); /* the mean over tokens: without experts that it does not choose */
/* Floating-point operations to train on one token, in all units and in one unit. Forward and backward together take
 * 6 for each weight of a matrix (4 for a frozen one), plus attention at length seq_len. */
double tess_model_flops_per_token(const tess_model *model, int64_t seq_len);
double tess_model_unit_flops_per_token(const tess_model *model, int unit, int64_t seq_len);

/* Writes the initial values of a box of tess_shape_atleast_1d(shape), row-major. A pure function of (seed, name,
 * element). */
void tess_param_fill(const tess_param *param, uint64_t seed, const tess_box *box, float *dst);

/* ---- Hooks: the calls in which ranks may communicate ---- */
/* Training a micro-batch calls pre_forward and post_forward for units 0, 1, ..., L, L+1, then pre_backward and
 * post_backward for units L+1, L, ..., 1, 0. The head's backward follows its forward at once, so keeping unit L+1
 * saves a gather.
 *
 * Tied weights: pre_backward of unit 0 comes right after that of unit L+1, since the head writes the gradient and
 * the embedding adds to it. Its post_backward comes last of all. Without backward, pre_forward(0) and
 * post_forward(0) are called between those of unit L+1.
 *
 * w: the unit's parameters in compute dtype (tess_param_dtype), in order. dw: float32 gradient buffers that the unit
 * overwrites, NULL for frozen parameters. Both are valid until the matching post call. */
typedef struct tess_hooks {
    void *self;
    tess_status (*pre_forward)(void *self, int unit, const void *const **w);
    tess_status (*post_forward)(void *self, int unit);
    tess_status (*pre_backward)(void *self, int unit, const void *const **w, float *const **dw);
    tess_status (*post_backward)(void *self, int unit);
} tess_hooks;

/* ---- A watch on the numbers ---- */
/* see: called for each tensor that a unit has computed, in the order of execution. `what` is "output" (embeddings),
 * "attention output", "router probabilities", "weights of experts", "output of expert 5", "feed-forward output", "final
 * norm", "log-probabilities" (or "values") or "input gradient".
 * `data` is (n_rows, row) of `dtype` in host memory, from the batch's row `first` on, and valid during the call. The
 * callback may change it (drills do). */
typedef struct tess_watch {
    void *self;
    void (*see)(void *self, int unit, const char *what, void *data, tess_dtype dtype, int64_t first, int64_t n_rows,
                int64_t row);
} tess_watch;

/* ---- A batch ---- */
/* A batch is host memory that a call has read before it returns. All other arguments and results (log-probabilities,
 * logits, the stream, keys and values, weights and gradients) are memory of the executor's device. */

/* Keys and values of past tokens, in pages of TESS_ATTENTION_BLOCK positions (infer/ owns the memory). Page p of
 * layer l starts at k[l] + p * page_stride elements. A page has one row of tess_model_cached_row elements for each
 * position. */
typedef struct tess_kv_cache {
    void *const *k, *const *v; /* (L of the whole model) NULL: another part has the layer */
    int64_t page_stride, n_pages;
    tess_dtype dtype;
} tess_kv_cache;

typedef struct tess_batch {
    int64_t n_tokens; /* number of tokens, T */
    int64_t n_seqs;
    const int32_t *ids;         /* (T) */
    const int32_t *pos;         /* (T) position inside the sequence */
    const int32_t *targets;     /* (T) next token, -1: no loss here; may be NULL in generation */
    const int32_t *cu_seqlens;  /* (n_seqs + 1) number of tokens before each sequence */
    const tess_kv_cache *cache; /* keys and values of past tokens; NULL in training */
    const int32_t *const
        *pages; /* (n_seqs) with a cache: sequence i has position p in page pages[i][p / BLOCK], for all
                 * of its tokens; those of this batch, from pos[cu_seqlens[i]] on, are written there */
    /* The loss that a training step minimises over this batch; NULL: the sum of -log p(target). Only callers that
     * run steps of several batches read it: tess_executor_train takes the loss as an argument, and evaluation has
     * none. */
    const tess_token_loss *loss;
    /* The batch is this rank's part of a text that ranks read together (tess_executor_options.readers). It has a cache.
     * Each rank has as many tokens, in the order of ranks. All tokens are written to each rank's cache. */
    bool is_shared;
} tess_batch;

/* ---- Running ---- */
/* Sums over the micro-batches that a model with mixtures of experts trains on. */
typedef struct tess_expert_loads {
    int64_t *counts;    /* (layers of the whole model, n_experts) tokens of each expert */
    tess_exact_sum aux; /* the auxiliary losses that training adds, over target tokens and layers */
} tess_expert_loads;

/* Activation checkpointing: backward computes again what a layer did not keep, with the same bits. */
typedef enum tess_recompute {
    TESS_RECOMPUTE_NONE,
    TESS_RECOMPUTE_FULL,     /* every layer keeps only its input */
    TESS_RECOMPUTE_EVERY_N,  /* layers 0, n, 2n, ... keep only their input */
    TESS_RECOMPUTE_SELECTIVE /* layers drop some groups of tensors */
} tess_recompute;

/* The tensors that a layer keeps in addition to its input. Tensors of one group are computed again together. */
typedef enum tess_layer_group {
    TESS_GROUP_FEED_FORWARD = 1,     /* gate and up; recomputing takes their matrix products */
    TESS_GROUP_ATTENTION_INPUTS = 2, /* q, k and v; recomputing takes their matrix products */
    TESS_GROUP_RESIDUAL = 4,         /* the stream after attention; recomputing takes the output projection */
    TESS_GROUP_ATTENTION = 8,        /* attention's output and log-sum-exp; recomputing takes attention itself */
    TESS_GROUP_ALL = 15              /* the whole layer, as TESS_RECOMPUTE_FULL */
} tess_layer_group;
enum { TESS_N_GROUPS = 4 };

/* A range of units, [begin, end). */
typedef struct tess_slot_units {
    int begin, end;
} tess_slot_units;

typedef struct tess_executor_options {
    tess_dtype dtype; /* type of parameters and activations: TESS_F32, TESS_BF16 or TESS_F16 */
    tess_recompute recompute;
    int recompute_every;       /* EVERY_N: the number n */
    unsigned recompute_groups; /* SELECTIVE: the groups (tess_layer_group) that layers may drop */
    /* SELECTIVE: how many pairs of a group and a layer are dropped, those that free most bytes for their time first;
     * 0: all pairs */
    int recompute_choices;
    /* Each rank keeps only its own rows of the input of a layer that is computed again. For ranks that share a model
     * but not the stream: they all have the same input. */
    bool partition_inputs;
    int64_t max_tokens;   /* T of the largest batch */
    int64_t max_position; /* longest sequence, at most the model's limit */
    bool train;           /* allocate memory for backward, too */
    /* Units below it are frozen: they get no gradient, their backward hooks are not called, and they keep nothing
     * for backward */
    int first_trainable_unit;
    int n_slots;                       /* number of micro-batches that may be in progress at once; 0: one */
    const tess_slot_units *slot_units; /* (n_slots) the units of each slot; NULL: all units. Create copies the array */
    /* Exchanges between ranks that share a model (tp_degree > 1), or NULL. Create copies it */
    const tess_points *points;
    /* Exchanges between ranks that divide the experts (ep_degree > 1), or NULL. Create copies it */
    const tess_expert_points *expert_points;
    /* How ranks divide the tokens of a batch, and sums over tokens; n_leaves 0: one chain and one rank. With more than
     * one leaf n_tokens of a batch is a multiple of TESS_LEAF_UNIT for each leaf of this rank, and max_tokens is one
     * rank's. ids, pos, targets and results are those of this rank's leaves; sequences are those of all ranks' tokens,
     * in their order. */
    tess_context context;
    /* Exchanges between ranks that have the same model and cache, and read texts together (tess_batch.is_shared), or
     * NULL. Without training. Create copies it */
    const tess_points *readers;
    /* true: each rank that shares the model has some rows of the stream; false: all rows */
    bool sequence_parallel;
    bool split_backward; /* keep the tensors that the weight part of a backward needs */
    /* Tied weights: how many gradients of the table may wait for the embedding's part after their head has run; 0:
     * one at a time, in the window of unit 0 */
    int n_tables;
    /* Linear maps of layers round their operands through fp8, as hardware with fp8 products reads them: inputs and
     * weights to E4M3, gradients to E5M2 (round_fp8 of the kernel table). Needs float32 or bfloat16, no adapter, and
     * no ranks that share a model */
    bool fp8;
    /* Weights that tess_model_owns_rows names are passed as rows of codes, which this function decodes to values of
     * `dtype`; NULL: as values. Needs no ranks that share a model */
    tess_status (*decode)(tess_stream *stream, const void *rows, int64_t n, int64_t row, tess_dtype dtype, void *to);
    /* Values that layers keep are on the disk of TESS_POOL_ACTIVATIONS (base/mem/named.h); those in use are in
     * memory. Needs a device in host memory. */
    bool on_disk;
    tess_expert_loads *loads; /* backward adds to it what each layer's experts do; borrowed; NULL: nobody reads it */
    /* The logits that may be in memory at the same time; 0: as many as the caches of a CPU hold. A GPU is only busy
     * with many rows. The gradient of the head's weight is added in chunks of them, so ranks must agree */
    size_t logit_bytes;
} tess_executor_options;

/* The default of logit_bytes for a device with memory of its own. It does not depend on how much memory that is, as
 * bits may not. */
#define TESS_DEVICE_LOGIT_BYTES ((size_t)4 << 30)

enum { TESS_MAX_SLOTS = 4096 };

typedef struct tess_executor tess_executor;

/* Creates an executor. Plans and allocates all its activations (activations pool). Copies the hooks; borrows model
 * and stream. */
tess_status tess_executor_create(tess_stream *stream, const tess_model *model, const tess_hooks *hooks,
                                 const tess_executor_options *options, tess_executor **executor);
void tess_executor_destroy(tess_executor **executor);
/* Sleep frees the activations between micro-batches, so that others can use the memory; a sleeping executor refuses
 * batches. Wake allocates them again; it does nothing if the executor does not sleep.
 * TESS_E_NOMEM: not enough memory; the executor stays asleep */
void tess_executor_sleep(tess_executor *executor);
tess_status tess_executor_wake(tess_executor *executor);
const tess_executor_options *tess_executor_get_options(const tess_executor *executor);
/* Sets the watch (copied) that sees what is computed; NULL: none. */
void tess_executor_set_watch(tess_executor *executor, const tess_watch *watch);
/* Returns the bytes that create would take from the activations pool. Allocates nothing. SIZE_MAX: too large to
 * count. */
size_t tess_executor_bytes(const tess_model *model, const tess_executor_options *options);
/* If activations are on disk: returns the bytes there, and in *resident how much memory the pager should have for
 * them. Otherwise both are 0. */
size_t tess_executor_disk_bytes(const tess_model *model, const tess_executor_options *options, size_t *resident);
/* Selective recomputation within a memory budget. Finds the fewest choices among recompute_groups for which
 * tess_executor_bytes plus the caller's `others` are at most `budget`. Sets recompute and recompute_choices; without
 * any choice: TESS_RECOMPUTE_NONE. A pure function of its arguments. Ranks that share a model pass the part of the
 * first of them, which has most.
 * TESS_E_INVALID: all choices together are not enough; the message says how many bytes they need */
tess_status tess_executor_fit(const tess_model *model, size_t budget, size_t others, tess_executor_options *options);
/* The number of layers that drop the group. */
int tess_executor_count_dropped(const tess_model *model, const tess_executor_options *options, tess_layer_group group);
/* The number of this rank's rows of the stream, for a batch of n_tokens. */
int64_t tess_executor_stream_rows(const tess_model *model, const tess_executor_options *options, int64_t n_tokens);
/* The largest number of rows of the stream that a rank may have, over all batches. With fewer tokens the last ranks
 * may have more rows than with max_tokens. */
int64_t tess_executor_stream_room(const tess_model *model, const tess_executor_options *options);
/* The most bytes that one rank contributes to one exchange. The number is the same for all ranks that share the
 * model. */
size_t tess_executor_exchange_bytes(const tess_model *model, const tess_executor_options *options);
/* The same for the ranks that divide a batch's tokens (options->context), and for those that read texts together. */
size_t tess_executor_context_bytes(const tess_model *model, const tess_executor_options *options);
size_t tess_executor_reader_bytes(const tess_model *model, const tess_executor_options *options, int n_readers);
/* Returns the bytes of each buffer of a ring between them. */
size_t tess_executor_ring_bytes(const tess_model *model, const tess_executor_options *options);

/* Runs forward and backward of one micro-batch and passes the gradients of `loss` to the hooks.
 *
 * loss: NULL: the SUM of -log p(target) over the batch's target tokens
 * logprob: (T) receives the log-probability of each target at the loss's temperature (0: no target), or a value
 * model's value of each row
 * TESS_E_INVALID: an invalid temperature, or a loss that grades outputs which the model does not have, if there are
 * tokens
 * Other errors are those of the loss or of a hook. */
tess_status tess_executor_train(tess_executor *executor, const tess_batch *batch, const tess_token_loss *loss,
                                float *logprob);

/* ---- Ranges of blocks on slots ---- */
/* tess_executor_train in pieces, for schedules that run blocks on several ranks and several micro-batches at once. A
 * range is units [begin, end) of one micro-batch. Its slot keeps what the blocks save between forward and backward.
 * First the forward of all ranges of a micro-batch runs, ascending, then backward, descending; other slots may run
 * in between. The bits are those of tess_executor_train, however the units are cut and the slots interleaved.
 *
 * The stream is (R, C) in the compute dtype. At the bounds of ranges the caller passes it on: the output of range
 * [b, e) is the input of unit e. R is the result of tess_executor_stream_rows.
 * The head's forward and backward both run in its backward, since its logits never exist whole.
 *
 * Tied weights without options.n_tables: the head's backward opens the window of unit 0, and the embedding's closes
 * it. Hooks have one window for each unit, so no other slot's head may run in between.
 *
 * Tied weights with n_tables: the heads' gradients wait in memory of the executor, and the embedding's backwards
 * take them in the order of the heads. Each embedding's backward opens and closes the window. The head has the
 * weights between pre_forward and post_forward of unit 0. */
typedef struct tess_range {
    int slot, begin, end;
    const tess_batch *batch; /* the same batch in all calls of a micro-batch */
} tess_range;

/* Returns the buffer from which `unit` of a slot reads the stream in its forward, (max_tokens, C) of the device. A
 * caller that writes there saves a copy. Call it when the slot is free: the executor owns the buffer from the slot's
 * forward to the end of its backward. The embedding has no such buffer. */
void *tess_executor_input(const tess_executor *executor, int slot, int unit);

/* Runs forward of a range.
 * in: the input of unit `begin`, which is copied unless it is tess_executor_input(); NULL if the range has the
 * embedding
 * out: receives the input of unit `end`; NULL if the range has the head */
tess_status tess_executor_forward(tess_executor *executor, const tess_range *range, const void *in, void *out);

/* Backward in two parts. The input part runs first, so that all ranges below can go on. The weight part of the same
 * range may run at any later time, from values that the slot keeps (options.split_backward).
 *
 * The input part calls pre_forward and post_forward of a layer, the weight part pre_backward and post_backward. The
 * head runs whole in the input part, the embedding whole in the weight part. A layer that drops a group also drops
 * its feed-forward group. Its weight part computes both again, and the input part as well, which is the price of not
 * keeping them. */
typedef enum tess_backward_part { TESS_BACKWARD_WHOLE, TESS_BACKWARD_INPUT, TESS_BACKWARD_WEIGHTS } tess_backward_part;

typedef struct tess_backward {
    tess_backward_part part;
    /* (R, C) gradient of the input of unit `end`; NULL if the range has the head, and in the weight part. It is not
     * copied: it must stay valid until the weight part has run */
    const void *dout;
    /* (R, C) receives the gradient of the input of unit `begin`; must not be dout; NULL: not wanted */
    void *din;
    const tess_token_loss *loss; /* loss and logprob (T) are as in tess_executor_train, if the range has the head */
    float *logprob;
} tess_backward;

/* Runs backward of a range, or a part of it. TESS_E_INVALID: no such range or slot, ends that do not fit the range,
 * or a backward before its forward (a weight part before its input part) */
tess_status tess_executor_backward(tess_executor *executor, const tess_range *range, const tess_backward *backward);

/* Adds the embedding's part of a tied table's gradient, if this part of the model has the table but not the embedding.
 * The oldest waiting gradient receives it: that of the micro-batch whose head ran first.
 *   dstream         (R, C) the gradient of the stream that the embedding left
 *   TESS_E_INVALID  there is no such table, or no head has run */
tess_status tess_executor_backward_table(tess_executor *executor, const tess_batch *batch, const void *dstream);

/* Forward only. Computes log-probabilities of the targets (T), and entropies of the predictions (T) or NULL, of
 * softmax(logits * inv_temperature). Both are 0 where there is no target. The bits are those of training with a loss
 * of that temperature (without a loss: of temperature 1). Logits exist for a chunk of rows at a time. */
tess_status tess_executor_logprobs(tess_executor *executor, const tess_batch *batch, float inv_temperature,
                                   float *logprob, float *entropy);

/* The results that an evaluation wants from the head: log-probabilities of targets, logits of some rows, or both. A
 * value head (tess_model_config.n_outputs 1, or value_head) computes values of all rows, with the bits of training. */
typedef struct tess_head_task {
    float inv_temperature;
    float *logprob, *entropy; /* (T) NULL: not wanted */
    const int32_t *rows;      /* (n_rows) the rows of the batch that need logits */
    int64_t n_rows;
    float *logits, *values; /* (n_rows, V), (T); NULL: not wanted */
} tess_head_task;

/* Forward only, for one range of a part of the model, or for all units. `in` and `out` are as in tess_executor_forward.
 * The range with the head writes the results. The slot keeps nothing afterwards. */
tess_status tess_executor_score(tess_executor *executor, const tess_range *range, const void *in, void *out,
                                const tess_head_task *task);

/* Forward only. Computes float32 logits (n_rows, V) of the given rows of the batch, with the same bits as inside
 * tess_executor_logprobs. */
tess_status tess_executor_logits(tess_executor *executor, const tess_batch *batch, const int32_t *rows, int64_t n_rows,
                                 float *logits);

/* Creates hooks for weights that this process holds whole: w[i] is parameter i of the model in compute dtype, dw[i]
 * its float32 gradient or NULL. Borrows both arrays. Allocates *hooks->self; free it with tess_static_hooks_free. */
tess_status tess_static_hooks(tess_mem *mem, const tess_model *model, const void *const *w, float *const *dw,
                              tess_hooks *hooks);
void tess_static_hooks_free(tess_hooks *hooks);

#endif
