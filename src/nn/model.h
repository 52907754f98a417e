/* A model: parameters grouped into units, and blocks (embedding, layers, head) that run over a batch.
 *
 * nn never sees comm. Around each unit the executor calls tess_hooks, where ranks may have to meet: hooks gather
 * parameters and reduce gradients (parallel/), or do nothing (tess_static_hooks, for one process). */
#ifndef TESS_NN_MODEL_H
#define TESS_NN_MODEL_H

#include "device/stream.h"
#include "nn/model_config.h"
#include "nn/points.h"
#include "nn/token_loss.h"

enum { TESS_PARAM_NAME_SIZE = 96 };

typedef enum tess_init { TESS_INIT_NORMAL, TESS_INIT_ZERO, TESS_INIT_ONE, TESS_INIT_UNIFORM } tess_init;

/* The whole parameter, of which ranks that share the model have parts of dimension `dim`, dealt out in multiples of
 * `unit` (points.h). Unit 0: each has all of it. */
typedef struct tess_param_slice {
    tess_shape whole;
    int dim;
    int64_t unit;
} tess_param_slice;

/* One parameter, as it is stored in HF files: Linear is (out, in), GPT-2's Conv1D (in, out) stays so. */
typedef struct tess_param {
    char name[TESS_PARAM_NAME_SIZE]; /* "model.layers.3.mlp.up_proj.weight" */
    tess_shape shape;                /* this rank's part */
    tess_param_slice slice;
    tess_init init;
    float init_std; /* UNIFORM: the bound, in [-bound, bound) */
    bool decay;     /* matrices and embeddings yes, norms and biases no */
    bool beside;    /* part of a value head next to a language model: its files lack it, unless trl wrote them */
    bool adapter;   /* LoRA's: "model.layers.3.mlp.up_proj.lora_A.weight" (rank, in), lora_B (out, rank) */
    bool frozen;    /* it gets no gradient */
    bool copy;      /* a tied table next to the embedding; the part with the head owns it and has its whole gradient */
    int unit;
} tess_param;

typedef struct tess_model tess_model;

/* Creates a model. If config->lora is set, every adapted linear map has two more parameters, and all others are frozen.
 * TESS_E_INVALID: a
 * target of lora is no linear map of a layer (the message lists them); TESS_E_UNSUPPORTED: GPT-2's c_attn has an
 * adapter, in a part with tp_degree > 1.
 *
 * Units in forward order: 0 the embedding(s), 1..L the layers, L+1 the final norm and head. With tied weights the head
 * uses the embedding unit as well. Owns nothing but descriptions: no weights. */
tess_status tess_model_create(tess_mem *mem, const tess_model_config *config, tess_model **model);

/* The adapter's description with all-linear spelled out. */
tess_status tess_model_lora(const tess_model *model, tess_lora *lora);

/* Freezes the parameter. */
void tess_model_freeze(tess_model *model, int index);
/* The first unit with a parameter that trains: units below it need no backward; n_units: none trains. */
int tess_model_first_trainable_unit(const tess_model *model);
/* Tied weights that train: whether this part has the table's gradient, and whether another one has it, which wants the
 * gradient of the stream that the embedding here leaves. */
bool tess_model_trains_table(const tess_model *model);
bool tess_model_copies_table(const tess_model *model);
/* Whether a parameter of the unit gets a gradient in this part. */
bool tess_model_unit_trains(const tess_model *model, int unit);

/* The part of a model that one rank of a pipeline holds: layers, with the embedding before the first and the head after
 * the last. Its units count from 0. Names, initial values and layers' numbers stay those of the whole model.
 *
 * Tied weights in two parts: the part with the head owns the table, under its own name, in a unit 0 that no forward
 * runs. The part with the embedding has a copy (tess_param.copy), which gets no gradient here. The table's gradient is
 * one chain, the head's first, then the embedding's: tess_executor_backward_table adds the latter. */
typedef struct tess_model_part {
    int64_t first_layer, n_layers;
    bool embedding, head;
    const int64_t *layers; /* (n_layers) ascending numbers of the layers, if they do not all follow first_layer; else
                              NULL. Only create reads them */
    /* The layers' share of one of `tp_degree` ranks that have tensor parallelism; 0: one rank. Key heads with all their
     * query heads, and feed-forward channels, are dealt out in whole as tess_shard_rows says, so shares may be uneven,
     * or empty. With more ranks than key heads, key heads and query heads are dealt out separately. Columns of the
     * embedding's tables and of the head are dealt out, too. Norms and biases of o and down are whole on every rank. */
    int tp_rank, tp_degree;
} tess_model_part;

/* TESS_E_INVALID: no such layers or rank, or an embedding or head that does not touch them. */
tess_status tess_model_create_part(tess_mem *mem, const tess_model_config *config, const tess_model_part *part,
                                   tess_model **model);
void tess_model_destroy(tess_model **model);
const tess_model_config *tess_model_get_config(const tess_model *model);
int tess_model_n_params(const tess_model *model);
const tess_param *tess_model_param(const tess_model *model, int index);
int tess_model_find_param(const tess_model *model, const char *name); /* -1: no such name */
int tess_model_n_units(const tess_model *model);
/* Whether it is the weight of linear maps of a layer that read whole rows of it, which GPT-2's c_attn is not. */
bool tess_model_owns_rows(const tess_model *model, int index);
const char *tess_model_unit_name(const tess_model *model, int unit);
int64_t tess_model_unit_layer(const tess_model *model, int unit); /* its number in the whole model; -1: no layer */
/* Tells the log of the stream's device that the next operations belong to the unit. */
void tess_model_name_unit(const tess_model *model, int unit, tess_stream *stream);
/* Parameters of a unit are contiguous: [first, first + n). */
void tess_model_unit_params(const tess_model *model, int unit, int *first, int *n);
int64_t tess_model_count(const tess_model *model); /* parameters in all */
/* Floating-point operations of one trained token (forward + backward, 6 a matrix weight, 4 a frozen one, + attention at
 * length seq_len), in all units and in one. */
double tess_model_flops_per_token(const tess_model *model, int64_t seq_len);
double tess_model_unit_flops_per_token(const tess_model *model, int unit, int64_t seq_len);

/* Initial values of a box of tess_shape_atleast_1d(shape), row-major: a pure function of (seed, name, element). */
void tess_param_fill(const tess_param *param, uint64_t seed, const tess_box *box, float *dst);

/* ---- Hooks: places where ranks may meet ---- */
/* Training a micro-batch calls, for units 0, 1, ..., L, L+1: pre_forward, post_forward; then for L+1, L, ..., 1, 0:
 * pre_backward, post_backward. The head's backward follows its forward at once: keeping unit L+1 saves a gather.
 * Tied weights: unit 0's pre_backward comes right after that of unit L+1 (the head writes the gradient, the embedding
 * adds to it) and its post_backward last of all; without backward, pre_forward(0) and post_forward(0) stand inside
 * those of unit L+1.
 *
 * w: the unit's parameters in compute dtype, in order; dw: float32 gradient buffers, NULL entries for frozen ones, to
 * be overwritten. Valid until the matching post call. */
typedef struct tess_hooks {
    void *self;
    tess_status (*pre_forward)(void *self, int unit, const void *const **w);
    tess_status (*post_forward)(void *self, int unit);
    tess_status (*pre_backward)(void *self, int unit, const void *const **w, float *const **dw);
    tess_status (*post_backward)(void *self, int unit);
} tess_hooks;

/* ---- A watch on the numbers ---- */
/* see: called for each tensor that a unit has computed, in the order of execution. `what` is "output" (embeddings),
 * "attention output", "feed-forward output", "final norm", "log-probabilities" (or "values") or "input gradient"; data
 * is (n_rows, row) of `dtype` in the host's memory, from the batch's row `first` on, valid during the call. The call
 * may change it (drills do). */
typedef struct tess_watch {
    void *self;
    void (*see)(void *self, int unit, const char *what, void *data, tess_dtype dtype, int64_t first, int64_t n_rows,
                int64_t row);
} tess_watch;

/* ---- A batch ---- */
/* A batch is memory of the host, consumed before a call returns. What a call gives and takes in addition (log-
 * probabilities, logits, the stream, keys and values, weights and gradients) is memory of the executor's device. */

/* Keys and values of past tokens, in pages of TESS_ATTENTION_BLOCK positions (infer/ owns the memory): page p of layer
 * l starts at k[l] + p * page_stride elements; rows (positions) of n_kv_heads * head_size elements. */
typedef struct tess_kv_cache {
    void *const *k, *const *v; /* (L) */
    int64_t page_stride, n_pages;
    tess_dtype dtype;
} tess_kv_cache;

typedef struct tess_batch {
    int64_t n_tokens; /* number of tokens, T */
    int64_t n_seqs;
    const int32_t *ids;         /* (T) */
    const int32_t *pos;         /* (T) position inside the sequence */
    const int32_t *targets;     /* (T) next token, -1: no loss here; may be NULL in generation */
    const int32_t *cu_seqlens;  /* (n_seqs + 1) */
    const tess_kv_cache *cache; /* NULL in training */
    const int32_t *const
        *pages; /* (n_seqs) with a cache: sequence i has position p in page pages[i][p / BLOCK], for all
                 * of its tokens; those of this batch, from pos[cu_seqlens[i]] on, are written there */
    /* The loss that a training step minimises over this batch; NULL: the sum of -log p(target). It serves callers that
     * run steps of many batches: tess_executor_train takes the loss as an argument, and evaluation has none. */
    const tess_token_loss *loss;
} tess_batch;

/* ---- Running ---- */
/* Activation checkpointing: what a layer does not keep for its backward runs again there, with the same bits. */
typedef enum tess_recompute {
    TESS_RECOMPUTE_NONE,
    TESS_RECOMPUTE_FULL,     /* layers keep their input alone */
    TESS_RECOMPUTE_EVERY_N,  /* layers 0, n, 2n, ... do */
    TESS_RECOMPUTE_SELECTIVE /* layers drop groups of tensors */
} tess_recompute;

/* The tensors that a layer keeps besides its input, in groups that are computed again together. */
typedef enum tess_layer_group {
    TESS_GROUP_FEED_FORWARD = 1,     /* gate and up: their products */
    TESS_GROUP_ATTENTION_INPUTS = 2, /* q, k and v: theirs */
    TESS_GROUP_RESIDUAL = 4,         /* the stream after attention: the product of its output */
    TESS_GROUP_ATTENTION = 8,        /* its output and log-sum-exp: attention itself */
    TESS_GROUP_ALL = 15              /* the layer, as TESS_RECOMPUTE_FULL */
} tess_layer_group;
enum { TESS_N_GROUPS = 4 };

/* Units [begin, end). */
typedef struct tess_slot_units {
    int begin, end;
} tess_slot_units;

typedef struct tess_executor_options {
    tess_dtype dtype; /* type of parameters and activations: TESS_F32, TESS_BF16 or TESS_F16 */
    tess_recompute recompute;
    int recompute_every;       /* n of EVERY_N */
    unsigned recompute_groups; /* SELECTIVE: tess_layer_group, of every layer */
    int recompute_choices; /* SELECTIVE: number of pairs of a group and a layer that are dropped, those that give most
                            * bytes for their time first; 0: all pairs */
    bool partition_inputs; /* Each rank keeps only its own rows of the input of a layer that computes again. The ranks
                            * share a model and not the stream, so all have the same input. */
    int64_t max_tokens;    /* T of the largest batch */
    int64_t max_position;  /* longest sequence, at most the model's limit */
    bool train;            /* allocate for backward */
    int first_trainable_unit; /* units below are frozen: they get no gradient, their backward hooks are not called, and
                               * they keep nothing */
    int n_slots;              /* micro-batches that may be under way at once; 0: one */
    const tess_slot_units *slot_units; /* (n_slots) the units of each slot; NULL: all. Create copies them */
    const tess_points *points;         /* exchanges of ranks that share a model (tp_degree > 1), or NULL. Copied */
    bool sequence_parallel;            /* each of these ranks has some rows of the stream; else all rows */
    bool split_backward;               /* keep what a backward in two parts needs between them */
    int n_tables; /* tied weights: heads' gradients of the table that wait for the embedding's part; 0: they lie in the
                   * window of unit 0, one at a time */
    bool fp8; /* linear maps of layers round what they multiply through fp8, as hardware that multiplies it reads it:
               * inputs and weights to E4M3, gradients to E5M2 (round_fp8 of the kernel table); float32 or bfloat16,
               * no adapter, no ranks that share a model */
    bool fp8_codes; /* weights of maps that have rows of their own (tess_model_owns_rows) come as codes
                     * (device/fp8_rows.h), with the same results. Needs fp8 and a device in the host's memory. */
    bool on_disk;   /* Values that layers keep lie on the disk of TESS_POOL_ACTIVATIONS (base/mem/named.h), and those in
                     * use in memory. Needs a device in the host's memory. */
} tess_executor_options;

enum { TESS_MAX_SLOTS = 4096 };

typedef struct tess_executor tess_executor;

/* Plans and allocates all activations once (activations pool); hooks are copied. model and stream are borrowed. */
tess_status tess_executor_create(tess_stream *stream, const tess_model *model, const tess_hooks *hooks,
                                 const tess_executor_options *options, tess_executor **executor);
void tess_executor_destroy(tess_executor **executor);
/* Gives the activations back, and takes as many again, between micro-batches: others may have the memory meanwhile. A
 * sleeping executor refuses batches. Wake: TESS_E_NOMEM, and it sleeps on; it does nothing where nothing sleeps. */
void tess_executor_sleep(tess_executor *executor);
tess_status tess_executor_wake(tess_executor *executor);
const tess_executor_options *tess_executor_get_options(const tess_executor *executor);
/* Sets the watch (copied) that sees what training computes; NULL: none. */
void tess_executor_set_watch(tess_executor *executor, const tess_watch *watch);
/* Returns the bytes that create takes from the activations pool; nothing is allocated. SIZE_MAX: too large to count. */
size_t tess_executor_bytes(const tess_model *model, const tess_executor_options *options);
/* If activations are on disk: the bytes there, and *resident, the room that the pager should have. Otherwise 0. */
size_t tess_executor_disk_bytes(const tess_model *model, const tess_executor_options *options, size_t *resident);
/* Selective recomputation by bytes: the fewest choices among recompute_groups with which tess_executor_bytes and the
 * caller's `others` are at most `budget`, in recompute and recompute_choices (without any: TESS_RECOMPUTE_NONE). A pure
 * function of its arguments; ranks that share a model ask it for the part of the first of them, which has most.
 * TESS_E_INVALID: all of them are not enough; the message says how much they take. */
tess_status tess_executor_fit(const tess_model *model, size_t budget, size_t others, tess_executor_options *options);
/* Layers that drop the group. */
int tess_executor_count_dropped(const tess_model *model, const tess_executor_options *options, tess_layer_group group);
/* Counts the work space that the kernels need in addition, on a stream of the host with n_threads. A batch has n_tokens
 * in sequences of max_position; every slot runs its forward and backward. A batch of 0 tokens needs some work space,
 * too. Computes nothing. `kernels` is as in tess_kernels_select. TESS_E_NOMEM: this process may not have this many
 * addresses. */
tess_status tess_executor_work_bytes(const tess_model *model, const tess_executor_options *options, int64_t n_tokens,
                                     int n_threads, const char *kernels, size_t *bytes);
/* This rank's rows of the stream of a batch of n_tokens. */
int64_t tess_executor_stream_rows(const tess_model *model, const tess_executor_options *options, int64_t n_tokens);
/* The most that a rank may have of a batch: of fewer tokens the last ranks may have more rows than of max_tokens. */
int64_t tess_executor_stream_room(const tess_model *model, const tess_executor_options *options);
/* The most bytes that a rank which shares the model holds of what it exchanges at a point, the same for all of them. */
size_t tess_executor_exchange_bytes(const tess_model *model, const tess_executor_options *options);

/* Forward and backward of one micro-batch: gradients of `loss` reach the hooks; NULL: of the SUM of -log p(target) over
 * the batch's target tokens. logprob (T) gets the log-probability of each target at the loss's temperature (0: no
 * target), or a value model's value of each row. TESS_E_INVALID: an invalid temperature, or a loss that grades outputs
 * which the model does not have, if there are tokens. Other errors are those of the loss or of a hook. */
tess_status tess_executor_train(tess_executor *executor, const tess_batch *batch, const tess_token_loss *loss,
                                float *logprob);

/* ---- Ranges of blocks on slots ---- */
/* tess_executor_train in pieces, for schedules that run blocks on several ranks and several micro-batches at once. A
 * range is units [begin, end) of one micro-batch; its slot keeps what the blocks save between forward and backward.
 * Forward of all ranges of a micro-batch comes first, ascending, then backward, descending; other slots may run in
 * between. The bits are those of tess_executor_train, however the units are cut and the slots interleaved.
 *
 * The stream, (R, C) in the compute dtype, is handed over at the bounds: what range [b, e) leaves is what unit e reads.
 * R is what tess_executor_stream_rows says.
 * The head runs forward and backward in its backward, since its logits never exist whole.
 *
 * Tied weights: without options.n_tables the head's backward opens the window of unit 0, and the embedding's closes it.
 * Hooks have one window a unit, so no other slot's head may come in between. With n_tables the heads' gradients wait in
 * memory of the executor, and the embedding's backwards take them in the order of the heads'. Each opens and closes the
 * window; the head has the weights between pre_forward and post_forward of unit 0. */
typedef struct tess_range {
    int slot, begin, end;
    const tess_batch *batch; /* the same in all calls of a micro-batch */
} tess_range;

/* The place where `unit` of a slot reads the stream in its forward, (max_tokens, C) of the device: a caller that writes
 * there saves a copy. Call it when the slot is free: the executor owns the place from the slot's forward to the end of
 * its backward. The embedding has no such place. */
void *tess_executor_input(const tess_executor *executor, int slot, int unit);

/* in: the input of unit `begin`, which is copied unless it is tess_executor_input(); NULL with the embedding. out: gets
 * the input of unit `end`; NULL with the head. */
tess_status tess_executor_forward(tess_executor *executor, const tess_range *range, const void *in, void *out);

/* Runs backward in two parts: the input part first, for all ranges below to go on; the weight part of the same range at
 * any time later, from what the slot keeps until then (options.split_backward). The input part calls pre_forward and
 * post_forward of a layer, the weight part pre_backward and post_backward. The head is whole in the input part, the
 * embedding in the weight part. A layer that drops a group drops its feed-forward too, and its weight part computes
 * what it dropped and its input part again: keeping them is what it saves. */
typedef enum tess_backward_part { TESS_BACKWARD_WHOLE, TESS_BACKWARD_INPUT, TESS_BACKWARD_WEIGHTS } tess_backward_part;

typedef struct tess_backward {
    tess_backward_part part;
    const void *dout; /* (R, C) gradient of what unit `end` reads; NULL with the head, and in the weight part. It is
                       * read where it lies, by the weight part too */
    void *din;        /* (R, C) receives the gradient of what unit `begin` reads; never dout itself; NULL: not wanted */
    const tess_token_loss *loss; /* loss and logprob (T) are as in tess_executor_train, if the range has the head */
    float *logprob;
} tess_backward;

/* TESS_E_INVALID: a range or slot that is not there, ends that do not fit the range, or a backward whose forward (a
 * weight part whose input part) has not run. */
tess_status tess_executor_backward(tess_executor *executor, const tess_range *range, const tess_backward *backward);

/* Adds the embedding's part of a tied table's gradient, if this part of the model has the table but not the embedding.
 * It belongs to the micro-batch whose head ran first among those that wait.
 *   dstream         (R, C) the gradient of the stream that the embedding left
 *   TESS_E_INVALID  there is no such table, or no head has run */
tess_status tess_executor_backward_table(tess_executor *executor, const tess_batch *batch, const void *dstream);

/* Calls `hooks` in the order in which tess_executor_train calls the executor's own, and computes nothing. Ignores the w
 * and dw that they return. */
tess_status tess_executor_rehearse(const tess_executor *executor, const tess_hooks *hooks);
/* The same for a range, whose batch is not read: as tess_executor_forward calls them, or, with `backward`, as
 * tess_executor_backward does for its part; it names no tensors. */
tess_status tess_executor_rehearse_range(tess_executor *executor, const tess_hooks *hooks, const tess_range *range,
                                         const tess_backward *backward);
/* The same for tess_executor_backward_table. */
tess_status tess_executor_rehearse_table(tess_executor *executor, const tess_hooks *hooks);

/* Forward only: log-probabilities of the targets (T), and entropies of the predictions (T) or NULL, of
 * softmax(logits * inv_temperature); both 0 where there is no target. The bits of training with a loss of that
 * temperature (without a loss: of 1). The logits exist for a chunk of rows at a time. */
tess_status tess_executor_logprobs(tess_executor *executor, const tess_batch *batch, float inv_temperature,
                                   float *logprob, float *entropy);

/* The same of a range of a part of the model: in and out as in tess_executor_forward; logprob and entropy come from the
 * range with the head. Its slot keeps nothing that is needed later. */
tess_status tess_executor_score(tess_executor *executor, const tess_range *range, const void *in, void *out,
                                float inv_temperature, float *logprob, float *entropy);

/* Forward only: float32 logits (n_rows, V) of the given rows of the batch. The same bits as inside the two calls above.
 */
tess_status tess_executor_logits(tess_executor *executor, const tess_batch *batch, const int32_t *rows, int64_t n_rows,
                                 float *logits);

/* Forward only, of a model with a value head (tess_model_config.n_outputs 1, or value_head): the value of each row (T).
 * The bits of training. */
tess_status tess_executor_values(tess_executor *executor, const tess_batch *batch, float *value);
/* Both of one forward: logits of some rows, and log-probabilities of all targets. */
tess_status tess_executor_predict(tess_executor *executor, const tess_batch *batch, const int32_t *rows, int64_t n_rows,
                                  float *logits, float inv_temperature, float *logprob);

/* Hooks for weights that are whole in this process: w[i] for parameter i of the model in compute dtype, dw[i] float32
 * or NULL. The arrays are borrowed. *hooks->self is allocated; free with tess_static_hooks_free. */
tess_status tess_static_hooks(tess_mem *mem, const tess_model *model, const void *const *w, float *const *dw,
                              tess_hooks *hooks);
void tess_static_hooks_free(tess_mem *mem, tess_hooks *hooks);

#endif
