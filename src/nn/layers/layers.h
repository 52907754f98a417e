/* The parts of a model, forward and backward, as calls of the kernel table: embedding, transformer layer, head. The
 * mathematics of a layer is in transformer_layer.c; the other files implement its terms. They own no memory: weights
 * come from the unit's window, activations from the executor's plan.
 *
 * Letters in shapes: T tokens of the batch (one sequence after the other), C channels, H query heads, G key/value
 * heads, D head size, F feed-forward channels, V vocabulary. R is the number of this rank's rows of the stream: T,
 * or fewer if ranks share it. A name with d in front is the gradient of the loss with respect to that tensor. */
#ifndef TESS_NN_LAYERS_LAYERS_H
#define TESS_NN_LAYERS_LAYERS_H

#include "device/stream.h"
#include "nn/layers/block_part.h"

/* The inputs of a batch that have one number for each token. Nothing reads ids after the embedding, so their memory may
 * then be used again. */
typedef enum tess_input { TESS_INPUT_IDS, TESS_INPUT_POSITIONS, TESS_INPUT_TARGETS, TESS_N_INPUTS } tess_input;

/* Work space for exchanges between ranks (nn/points.h). All members are NULL if one rank has the whole layer. */
typedef struct tess_split_work {
    /* (T, K), where K is the longest contracted index of a product, all its terms together; by_rows: (R, K) */
    void *operands;
    void *weights;  /* gathered weights: (K, C / degree); by_rows: (K, C) */
    void *slice;    /* (T, C / degree) this rank's columns of an operand or a result */
    bool by_rows;   /* true: a product over a shared index is split over rows of the stream; false: over columns */
    float *rstd;    /* statistics of rows: (T, H) for head norms, (2, T) for norms of the stream */
    void *stream;   /* (T, C) if ranks share the stream; else NULL */
    float *partial; /* (T, C), then (degree, rows, C), if ranks exchange partial sums; else NULL */
} tess_split_work;

/* Factors of a rotation, (longest sequence, R/2) each. */
typedef struct tess_rope_factors {
    float *cos_table, *sin_table;
} tess_rope_factors;

/* Work space of maps with adapters. All members are NULL if there are none. */
typedef struct tess_low_rank_work {
    void *low;  /* (T, rank) z or dz (low_rank.c) */
    float *sum; /* (T, n), n the widest input or output of a map with an adapter; NULL: not needed */
    void *wide; /* (T, n) in the compute dtype, n as for sum; NULL if the compute dtype is float32 */
    /* (T, n), n the widest whole inputs or outputs that are cut over ranks; NULL: no gradients, or one rank */
    void *all;
    void *factor; /* (rank, n), n as for all: A or B of all ranks; NULL: one rank */
    /* (leaves + log2(leaves), rank, n), n the widest input of a view of a fused matrix: the leaves of dA, then the
     * levels of their sum; NULL: one leaf, or no such view */
    float *leaves;
} tess_low_rank_work;

/* Products that wait to be computed as one group. */
enum { TESS_MAX_PRODUCTS = 128 };
typedef struct tess_product_list {
    int64_t n;
    tess_gemm_fused of[TESS_MAX_PRODUCTS];
} tess_product_list;

/* The arguments of one unit of a model on one batch. */
struct tess_layer_call {
    tess_stream *stream;
    const tess_kernels *kernels;
    tess_dtype dtype;     /* type of parameters and activations */
    int64_t T;            /* number of rows that the call works on */
    tess_cut rows;        /* how the ranks that share the stream cut its rows */
    const void *const *w; /* the unit's parameters */
    float *const *dw;     /* gradients of w, NULL for frozen parameters; dw itself is NULL in forward */
    const tess_block *block;
    const void *own; /* parameters of the part that runs: the struct that it defines */
    const tess_model_config *config;
    const tess_batch *batch;  /* the caller's batch, in host memory */
    tess_attention_seq *seqs; /* (n_seqs) descriptors, in host memory */
    float *graded;            /* (4, T) host memory: a token loss's two inputs and two results */
    int32_t *const *inputs;   /* (TESS_N_INPUTS) (T) each, in device memory */
    int unit;
    const tess_rope_factors *ropes; /* (TESS_N_ROPES) factors of rotations; those that no layer uses are NULL */
    const tess_watch *watch;
    const tess_points *points;               /* exchanges between ranks; degree 1: none */
    const tess_expert_points *expert_points; /* exchanges between ranks that divide the experts; degree 1: none */
    const tess_context *context;             /* how ranks divide the tokens of the batch */
    int n_leaves; /* leaves of a sum over the call's tokens, which are T / n_leaves each; 1: the sum is one chain */
    /* Products over tokens state their leaf, even if there is one: a GPU computes a leaf by another kernel than a whole
     * product, and a rank may have one leaf of several */
    bool states_leaf;
    void *context_work;         /* work space of context_attention.c */
    const tess_points *readers; /* exchanges between ranks that read texts together; degree 1: none */
    void *read_rows;            /* keys, then values, of the tokens that all of them read (attention_rows.c) */
    float *leaf_room;           /* sums of leaves (token_sum.c); NULL: there is one leaf */
    /* (leaves of this rank - 1, rows of the table, columns) gradients of a tied table by leaf, from the head's backward
     * to the embedding's; the first leaf's is the table's gradient. NULL: one leaf, or no such table */
    float *leaf_tables;
    tess_split_work split;
    tess_low_rank_work low_rank;
    void *fusing; /* work space of fused products in backward (tess_gemm_fused_work) */
    /* The tess_linear_own_* functions append their products here instead of computing them; a full list is computed.
     * NULL: they compute them */
    tess_product_list *list;
    /* Factor of the auxiliary losses of routers (tess_token_loss); set in backward */
    float routers;
    tess_expert_loads *loads; /* see tess_executor_options */
    size_t logit_bytes;       /* see tess_executor_options */
    bool rounds;              /* linear maps of layers round their operands through fp8 */
    /* Decodes weights that tess_block_owns_rows names; NULL: they are values (tess_executor_options) */
    tess_status (*decode)(tess_stream *stream, const void *rows, int64_t n, int64_t row, tess_dtype dtype, void *to);
    void *rounded; /* work space for operands of one product, or of one sum of products, that are rounded or decoded */
};

static inline void *tess_at(const tess_layer_call *call, const void *base, int64_t element)
{
    return (char *)(uintptr_t)base + element * (int64_t)tess_dtype_size(call->dtype);
}

static inline bool tess_wants(const tess_layer_call *call, int param)
{
    return param >= 0 && call->dw[param] != NULL;
}

static inline bool tess_is_split(const tess_layer_call *call, tess_cut cut)
{
    return call->points->degree > 1 && cut.unit > 0;
}

/* A box of a matrix, rows `ld` elements apart. The cuts say which rows and columns each rank has. */
typedef struct tess_matrix_box {
    tess_cut rows, columns;
    const void *data;
    int64_t ld;
} tess_matrix_box;

/* Exchanges a matrix (points.h): this rank holds one box of it, and receives another one. */
static inline tess_status tess_meet_over(const tess_points *points, const char *what, size_t element,
                                         tess_matrix_box held, tess_matrix_box wanted)
{
    const tess_exchange exchange = {.what = what,
                                    .held = {held.rows, held.columns},
                                    .wanted = {wanted.rows, wanted.columns},
                                    .element = element,
                                    .mine = held.data,
                                    .into = (void *)(uintptr_t)wanted.data,
                                    .ld = held.ld,
                                    .into_ld = wanted.ld};
    return points->exchange(points->self, &exchange);
}

static inline tess_status tess_meet(const tess_layer_call *call, const char *what, size_t element, tess_matrix_box held,
                                    tess_matrix_box wanted)
{
    return tess_meet_over(call->points, what, element, held, wanted);
}

/* Copies n rows of `width` elements of some bytes each; the rows are x_ld and y_ld elements apart. */
static inline tess_status tess_layer_copy_rows(const tess_layer_call *call, int64_t element, int64_t n, int64_t width,
                                               const void *x, int64_t x_ld, void *y, int64_t y_ld)
{
    const tess_copy_rows_args args = {
        .x = x, .x_stride = x_ld * element, .y = y, .y_stride = y_ld * element, .n = n, .row_bytes = width * element};
    return call->kernels->copy_rows(call->stream, &args);
}

/* This rank's range [*begin, *begin + *size) of a cut index. */
static inline void tess_own_range(const tess_layer_call *call, tess_cut cut, int64_t *begin, int64_t *size)
{
    tess_cut_range(cut, call->points->degree, call->points->rank, begin, size);
}

/* Returns R, the number of this rank's rows of the stream; the first one is *begin. If ranks do not share the
 * stream, R is T. */
static inline int64_t tess_own_rows(const tess_layer_call *call, int64_t *begin)
{
    int64_t R;
    tess_own_range(call, call->rows, begin, &R);
    return R;
}

/* This rank's rows of a whole (T, C). */
static inline void *tess_own_part(const tess_layer_call *call, const void *whole)
{
    int64_t begin;
    tess_own_rows(call, &begin);
    return tess_at(call, whole, begin * call->block->hidden_size);
}

/* Shows a tensor (T, row) to the watch. If ranks share the stream, it shows this rank's rows (R, row). */
static inline void tess_layer_show(const tess_layer_call *call, const char *what, void *data, int64_t row)
{
    int64_t begin, R = tess_own_rows(call, &begin);
    if (call->watch->see != NULL)
        call->watch->see(call->watch->self, call->unit, what, data, call->dtype, begin, R, row);
}

/* Shows float32 rows (n_rows, row) that are the same on ranks that share the stream. */
static inline void tess_layer_show_floats(const tess_layer_call *call, const char *what, float *data, int64_t n_rows,
                                          int64_t row)
{
    if (call->watch->see != NULL)
        call->watch->see(call->watch->self, call->unit, what, data, TESS_F32, 0, n_rows, row);
}

/* ---- Linear: y (T, n_out) = x (T, n_in) W + b, rows of x, y contiguous ---- */
tess_status tess_linear_forward(const tess_layer_call *call, const tess_linear *linear, const void *x, void *y);
/* Computes the parameters' gradients, including the adapter's. */
tess_status tess_linear_backward_params(const tess_layer_call *call, const tess_linear *linear, const void *x,
                                        const void *dy);
/* dx = dy W^T. */
tess_status tess_linear_backward_input(const tess_layer_call *call, const tess_linear *linear, const void *dy,
                                       void *dx);
/* Elements between rows of y and dy. */
static inline int64_t tess_linear_row(const tess_linear *linear)
{
    return linear->out_stride > 0 ? linear->out_stride : linear->n_out;
}
bool tess_linear_trains(const tess_layer_call *call, const tess_linear *linear);
/* Whether the parameters' gradients need x. (The gradient of a bias does not.) */
bool tess_linear_reads_input(const tess_layer_call *call, const tess_linear *linear);

/* Several maps of one input (at most 1 + TESS_GEMM_TERMS, with the same storage order): the input's gradient is the
 * sum of theirs, added in float32 and rounded once. `fusing` is as in tess_gemm_fused_work. */
typedef struct tess_linear_grad {
    const tess_linear *linear;
    const void *dy;
} tess_linear_grad;
tess_status tess_linear_backward_inputs(const tess_layer_call *call, const tess_linear_grad *grads, int n, void *fusing,
                                        void *dx);

/* up = x W + b, act = f(up), or f(gate) * up if there is a gate; as one product. */
tess_status tess_linear_act_forward(const tess_layer_call *call, const tess_linear *linear, const void *x, void *gate,
                                    void *up, void *act);
/* Computes dact = dy W^T, and from it dgate and dup, which overwrite gate and up, and act again (NULL: not wanted);
 * as one product. */
tess_status tess_linear_act_backward(const tess_layer_call *call, const tess_linear *linear, const void *dy, void *gate,
                                     void *up, void *act, void *fusing);

/* ---- The functions above without adapters, for this rank's inputs and outputs ---- */
/* Computes the products of call->list, if there is one, and empties it. */
tess_status tess_linear_flush(const tess_layer_call *call);
tess_status tess_linear_own_forward(const tess_layer_call *call, const tess_linear *linear, const void *x, void *y,
                                    tess_dtype y_dtype);
/* accumulate: adds to the weight's gradient instead of overwriting it; only the weight's gradient may accumulate. */
tess_status tess_linear_own_backward_params(const tess_layer_call *call, const tess_linear *linear, const void *x,
                                            const void *dy, bool accumulate);
tess_status tess_linear_own_backward_input(const tess_layer_call *call, const tess_linear *linear, const void *dy,
                                           void *dx);
tess_status tess_linear_own_backward_inputs(const tess_layer_call *call, const tess_linear_grad *grads, int n,
                                            void *fusing, void *dx, tess_dtype dx_dtype);
tess_status tess_linear_own_act_forward(const tess_layer_call *call, const tess_linear *linear, const void *x,
                                        void *gate, void *up, void *act);
tess_status tess_linear_own_act_backward(const tess_layer_call *call, const tess_linear *linear, const void *dy,
                                         void *gate, void *up, void *act, void *fusing);

/* ---- The functions above for maps with an adapter ---- */
tess_status tess_low_rank_forward(const tess_layer_call *call, const tess_linear *linear, const void *x, void *y);
/* Whether the map is a view of a matrix that one rank computes as one product, while ranks share it as several. */
static inline bool tess_low_rank_joins(const tess_layer_call *call, const tess_linear *linear)
{
    return linear->joined && linear->stored_whole && tess_is_split(call, linear->out);
}

/* The map of all n_out outputs of a matrix, from its first view. */
tess_linear tess_low_rank_whole(const tess_linear *view, int64_t n_out);
/* Computes the gradient of A that such views share; the other function then computes only that of B. Does nothing for
 * other maps. */
tess_status tess_low_rank_backward_joined(const tess_layer_call *call, const tess_linear_grad *grads, int n,
                                          const void *x);
/* Computes only the adapter's gradients. */
tess_status tess_low_rank_backward_params(const tess_layer_call *call, const tess_linear *linear, const void *x,
                                          const void *dy);
/* Adds the adapter's part of a product whose contracted index ranks share: sum (m, n) += scale (operand F) G,
 * rounded between the two products.
 * operand: m rows with all of the contracted index, `ld` elements apart
 * first, n: the outputs are [first, first + n)
 * forward: true: F is A^T and G is B^T; false: F is B and G is A */
tess_status tess_low_rank_add(const tess_layer_call *call, const tess_linear *linear, bool forward, const void *operand,
                              int64_t ld, int64_t m, int64_t first, int64_t n, float *sum);
/* One of the maps, or more, must have an adapter. */
tess_status tess_low_rank_backward_inputs(const tess_layer_call *call, const tess_linear_grad *grads, int n,
                                          void *fusing, void *dx);
tess_status tess_low_rank_act_forward(const tess_layer_call *call, const tess_linear *linear, const void *x, void *gate,
                                      void *up, void *act);
tess_status tess_low_rank_act_backward(const tess_layer_call *call, const tess_linear *linear, const void *dy,
                                       void *gate, void *up, void *act, void *fusing);

/* ---- Products of a layer that ranks share. Arguments and bits are those of the functions without `split`. x, dy
 * and the weight are this rank's parts; y and dx belong to the stream. ---- */
tess_status tess_split_forward(const tess_layer_call *call, const tess_linear *linear, const void *x, void *y);
tess_status tess_split_backward_inputs(const tess_layer_call *call, const tess_linear_grad *grads, int n, void *fusing,
                                       void *dx);
/* Gathers the gradients of a matrix and bias that every rank stores whole. Each rank has computed those of its
 * outputs. */
tess_status tess_split_gather_params(const tess_layer_call *call, const tess_linear *linear);
/* Whether ranks exchange partial sums. They do if each rank's share of `channels` is a subtree of the sum's tree: a
 * power of two of whole leaves. */
static inline bool tess_exchanges_sums(tess_cut channels, int64_t leaf, int degree)
{
    int64_t begin, share;
    tess_cut_range(channels, degree, 0, &begin, &share);
    return degree > 1 && leaf > 0 && share % leaf == 0 && (share / leaf & (share / leaf - 1)) == 0;
}
/* tess_split_forward and tess_split_backward_inputs by exchange of partial sums. */
tess_status tess_sum_forward(const tess_layer_call *call, const tess_linear *linear, const void *x, void *y);
tess_status tess_sum_backward_inputs(const tess_layer_call *call, const tess_linear_grad *grads, int n, void *fusing,
                                     void *dx);
/* Gathers gradients of n_rows rows, `ld` elements apart. Each rank has computed some columns, which are in place. */
tess_status tess_split_gather_gradient(const tess_layer_call *call, tess_cut columns, float *mine, int64_t n_rows,
                                       int64_t ld);
/* Gathers a matrix (T, columns) of elements of any size. `mine` is this rank's columns, contiguous; `into` receives
 * all, rows into_ld elements apart. */
tess_status tess_split_gather(const tess_layer_call *call, tess_cut columns, size_t element, const void *mine,
                              void *into, int64_t into_ld);
/* Copies this rank's columns of `whole` (T, columns), in the compute dtype, to `mine`, contiguous. Needs no
 * communication. */
tess_status tess_split_own(const tess_layer_call *call, tess_cut columns, const void *whole, void *mine);
/* ---- The stream: each rank that shares a layer has all of its rows, or some ---- */
/* Gathers the whole stream (T, C) from every rank's rows `own` (R, C). *whole is `room` (T, C), in which `own` may
 * already be in place; if this rank has all rows, it is `own` itself. */
tess_status tess_stream_gather(const tess_layer_call *call, const void *own, void *room, const void **whole);
/* Convert between this rank's rows of the stream (R, columns) and this rank's columns of all T rows, contiguous. */
tess_status tess_stream_from_columns(const tess_layer_call *call, tess_cut columns, const void *mine, void *stream);
tess_status tess_stream_to_columns(const tess_layer_call *call, tess_cut columns, const void *stream, void *mine);
/* Computes the gradients of a norm's parameters if ranks share the stream. They are whole on every rank. */
tess_status tess_stream_norm_params(const tess_layer_call *call, const tess_norm *norm, const void *h,
                                    tess_norm_stats stats, const void *dy);

/* ---- Sums over tokens, by leaf (token_sum.c) ---- */
/* A sum (n) over the tokens of a call. */
typedef struct tess_leaf_sum {
    float *sum;    /* NULL: not wanted */
    float *room;   /* (log2 of the call's leaves, n) */
    float *tables; /* NULL, or (leaves - 1, n): leaves stay apart there, and the first one in `sum` */
    int64_t n;
} tess_leaf_sum;

/* Returns where the sum of leaf number `leaf` goes. */
float *tess_leaf_begin(const tess_layer_call *call, const tess_leaf_sum *sum, int leaf);
/* Adds that leaf to the tree, once it is there. Call both for all leaves, ascending. */
tess_status tess_leaf_end(const tess_layer_call *call, const tess_leaf_sum *sum, int leaf);
/* The leaf of a product over the call's tokens (tess_gemm.leaf). */
static inline int64_t tess_leaf_tokens(const tess_layer_call *call)
{
    return call->n_leaves > 1 || call->states_leaf ? call->T / call->n_leaves : 0;
}
/* Calls rmsnorm_backward or layernorm_backward for args->T rows of the call's tokens. */
tess_status tess_norm_sums(const tess_layer_call *call, bool layer_norm, const tess_norm_grad_args *args);
tess_status tess_column_sums(const tess_layer_call *call, const tess_column_sum_args *args);
/* Calls embedding_backward. tables: NULL, or call->leaf_tables: with `accumulate`, the leaves' gradients are there. */
tess_status tess_embedding_sums(const tess_layer_call *call, const tess_embedding_grad_args *args, float *tables);

/* ---- Norms over C channels (rows contiguous) ---- */
/* h = x + residual, y = norm(h), (R, C) each, as the kernels define it. residual, h and the members of stats may be
 * NULL. */
tess_status tess_norm_rows(const tess_layer_call *call, const tess_norm *norm, const void *x, const void *residual,
                           void *h, void *y, tess_norm_stats stats);
/* The first line of a part: in (R, C) = before + branch, unless it is ready (`before` NULL); y (T, C) = norm(in), or
 * `in` itself if the part has no norm. *y is the tensors' y or, without a norm, perhaps their `in`. */
tess_status tess_norm_input(const tess_layer_call *call, const tess_norm *norm, const tess_tensors *tensors,
                            const void *before, tess_norm_stats stats, const void **y);
/* dh = dresidual + norm'(dy), (R, C) each; without a norm, dh = dresidual + dy, or nothing if there is no dresidual. */
tess_status tess_norm_backward(const tess_layer_call *call, const tess_norm *norm, const void *h, tess_norm_stats stats,
                               const void *dy, const void *dresidual, void *dh);
/* Computes y = norm(in) again, as in forward, without saving statistics. */
tess_status tess_norm_again(const tess_layer_call *call, const tess_norm *norm, const tess_tensors *tensors,
                            const void **y);
bool tess_norm_trains(const tess_layer_call *call, const tess_norm *norm);

/* ---- The end of a branch ---- */
/* branch (R, C) = factor * norm(raw), each if there is one. Without a norm, the caller has computed raw in `branch`.
 * stats: those of the norm */
tess_status tess_branch_finish(const tess_layer_call *call, const tess_branch_end *end, const tess_tensors *tensors,
                               void *raw, tess_norm_stats stats);
/* Computes the gradient (T, C) of `raw` from the stream's, and the gradients of the norm's parameters. It may be in
 * `branch` or in dout, and is valid until one of them is written. */
tess_status tess_branch_gradient(const tess_layer_call *call, const tess_branch_end *end, const tess_tensors *tensors,
                                 const void *raw, tess_norm_stats stats, const void **gradient);

/* ---- Rotary positions ---- */
/* Writes cos and sin (length, R/2) of R rotated channels as transformers computes them for this config and a text of
 * the model's largest length. Dynamic scaling and longrope depend on that length and not on the batch, so that rows do
 * not depend on batch and request. */
void tess_rope_tables(const tess_model_config *config, tess_rope_table table, int64_t length, float *cos_table,
                      float *sin_table);
/* The factor of attention's scores by which models with latents correct YaRN: mscale_all_dim's, squared; else 1. */
double tess_rope_score_scale(const tess_model_config *config);
/* Writes inv_freq (rotary/2) for a text of `limit` tokens. Returns the factor by which cos and sin are scaled. */
double tess_rope_frequencies(const tess_rope_config *rope, int64_t rotary, int64_t limit, float *inv_freq);

#endif
