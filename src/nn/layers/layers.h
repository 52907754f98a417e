/* The parts of a model, forward and backward, as calls of the kernel table: embedding, transformer layer, head. The
 * mathematics of a layer is in transformer_layer.c; the other files are its terms. They own no memory: weights come
 * from the unit's window, activations from the executor's plan.
 *
 * T tokens of the batch (its sequences follow each other), C channels, H query heads, G key/value heads, D head
 * size, F feed-forward channels, V vocabulary; R rows of the stream, which are T unless ranks share it. d before a
 * name: the gradient of the loss by it. */
#ifndef TESS_NN_LAYERS_LAYERS_H
#define TESS_NN_LAYERS_LAYERS_H

#include "device/stream.h"
#include "nn/block.h"

/* The values of a batch that kernels read, in the device's memory. */
typedef struct tess_batch_values {
    const int32_t *ids, *pos, *targets; /* (T) each */
} tess_batch_values;

/* Work space of what ranks share (nn/points.h); NULL where one rank has the whole layer. */
typedef struct tess_split_work {
    void *operands; /* (T, K), K the widest that a product contracts, all its terms together; by_rows: (R, K) */
    void *weights;  /* (K, C / degree); by_rows: (K, C) */
    void *slice;    /* (T, C / degree) */
    bool by_rows;   /* a product that contracts what ranks share is cut by rows of the stream, else by columns */
    float *rstd;    /* (T, H), or (2, T) */
    void *stream;   /* (T, C) where ranks share the stream; else NULL */
    float *partial; /* (T, C), then (degree, rows, C), where partial sums are exchanged; else NULL */
} tess_split_work;

/* Work space of maps with adapters; NULL where there are none. */
typedef struct tess_low_rank_work {
    void *low;    /* (T, rank) */
    float *sum;   /* (T, n), n the widest input or output of such a map; NULL: not needed */
    void *wide;   /* the same in the compute dtype; NULL where that is float32 */
    void *all;    /* (T, n), n the widest inputs or outputs that ranks share, of all of them; NULL: no gradients, or one
                   * rank */
    void *factor; /* (rank, n), likewise: A or B of all ranks; NULL: one rank */
} tess_low_rank_work;

/* One unit of a model on one batch. */
typedef struct tess_layer_call {
    tess_stream *stream;
    const tess_kernels *kernels;
    tess_dtype dtype;     /* type of parameters and activations */
    int64_t T;            /* rows that a call works on */
    tess_cut rows;        /* those of the stream, over the ranks that share it */
    const void *const *w; /* the unit's parameters */
    float *const *dw;     /* their gradients, entries NULL when frozen; NULL in forward */
    const tess_block *block;
    const tess_model_config *config;
    const tess_batch *batch; /* the caller's, in the host's memory */
    tess_batch_values values;
    int unit;
    const float *cos_table, *sin_table; /* (longest sequence, D/2) */
    const tess_watch *watch;
    const tess_points *points; /* degree 1: nobody to meet */
    tess_split_work split;
    tess_low_rank_work low_rank;
    bool reads_codes; /* weights that tess_block_owns_rows names are fp8 codes (device/fp8_rows.h) */
    void *rounded; /* a layer's linear maps round their operands through fp8, to this work space: what one product, or
                    * one sum of products, reads; NULL: they do not */
} tess_layer_call;

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

static inline bool tess_shares_key_heads(const tess_layer_call *call)
{
    return call->points->degree > 1 && tess_block_shares_key_heads(call->block);
}

static inline tess_status tess_meet(const tess_layer_call *call, tess_exchange exchange)
{
    return call->points->exchange(call->points->self, &exchange);
}

/* Elements between tokens of this rank's q, and of k and v. Without norms of q and k the three are parts of one row. */
typedef struct tess_head_strides {
    int64_t q, kv;
} tess_head_strides;

static inline tess_head_strides tess_head_strides_of(const tess_block *p)
{
    int64_t Q = p->n_heads * p->head_size, K = p->n_kv_heads * p->head_size;
    return tess_block_norms_heads(p) ? (tess_head_strides){Q, K} : (tess_head_strides){Q + 2 * K, Q + 2 * K};
}

/* This rank's part of what ranks share. */
static inline void tess_own_range(const tess_layer_call *call, tess_cut cut, int64_t *begin, int64_t *size)
{
    tess_cut_range(cut, call->points->degree, call->points->rank, begin, size);
}

/* R rows of the stream are this rank's, from *begin on; all T where ranks do not share the stream. */
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
    return tess_at(call, whole, begin * call->config->hidden_size);
}

/* Shows (T, row), or where the stream is shared this rank's rows of it, to the watch. */
static inline void tess_layer_show(const tess_layer_call *call, const char *what, void *data, int64_t row)
{
    int64_t begin, R = tess_own_rows(call, &begin);
    if (call->watch->see != NULL)
        call->watch->see(call->watch->self, call->unit, what, data, call->dtype, begin, R, row);
}

/* ---- Transformer layer ---- */
typedef struct tess_norm_stats {
    float *mean, *rstd; /* (rows); mean for LayerNorm only */
} tess_norm_stats;

/* The tensors that a layer saves from its forward for its backward, a row per token. Backward recomputes norm outputs,
 * normed q and k, and the activation: each costs a pass over memory, and saving them would take 2C + F more per token.
 */
typedef struct tess_layer_saved {
    void *h;                     /* (R, C) the layer's input */
    tess_norm_stats input_stats; /* (R) */
    void *q_raw, *k_raw, *v;     /* (T, H, D), (T, G, D), (T, G, D) before the norms of q and k */
    void *q, *k;                 /* inputs of attention: q_raw and k_raw, or with norms, work space */
    float *q_rstd, *k_rstd;      /* (T, H), (T, G) with norms of q and k */
    void *out;                   /* (T, H, D) output of attention */
    float *lse;                  /* (T, H) log-sum-exp */
    void *h2;                    /* (R, C) the stream between attention and feed-forward; h itself without backward */
    tess_norm_stats mlp_stats;   /* (R) */
    void *gate, *up;             /* (T, F); gate only where there is one */
    unsigned dropped;            /* tess_layer_group: layers share these, and backward computes them again */
} tess_layer_saved;

/* Work space of one layer at a time: one stream's gradient for all layers, and `branch` for both dy. Where gradients of
 * parameters come later, they are a layer's own, and so are dq, dk, dv and act. */
typedef struct tess_layer_work {
    void *y;                  /* (T, C) the newest norm's output */
    void *branch;             /* (R, C) what attention or the feed-forward adds to the stream */
    void *dh3, *dh2, *dh;     /* (R, C) the stream's gradient after the layer, at h2 and at h */
    void *dy_mlp, *dy_input;  /* (R, C) gradients of the norms' outputs */
    void *dout;               /* (T, H, D) */
    void *dq, *dk, *dv;       /* like q, k, v */
    void *act;                /* (T, F) */
    void *fusing;             /* work space of fused products in backward, see tess_gemm_fused_work */
    tess_attention_seq *seqs; /* (n_seqs) descriptors: of the host */
    bool deferred;            /* the parameters' gradients come later, from what is kept here until then */
} tess_layer_work;

/* Computes a layer from stream to stream. The layer's input h is the sum of h2 of `before` and work->branch (before
 * NULL: the first layer, whose h is ready). Its output stays in h2 and work->branch, and the next block adds them. With
 * a cache, keys and values are written to the layer's rows of it, and attention reads them there. */
tess_status tess_layer_forward(const tess_layer_call *call, const tess_layer_saved *before,
                               const tess_layer_saved *saved, const tess_layer_work *work);
/* work->dh3: gradient of the layer's output; work->dh becomes that of its input if `want_dh`. */
tess_status tess_layer_backward(const tess_layer_call *call, const tess_layer_saved *saved, const tess_layer_work *work,
                                bool want_dh);
/* The parameters' gradients alone, after a backward that wanted none of them, with work->deferred. */
tess_status tess_layer_backward_weights(const tess_layer_call *call, const tess_layer_saved *saved,
                                        const tess_layer_work *work);

/* ---- Attention: the insides of q, k and v ---- */
/* y (T, C) -> q_raw, k_raw, v. */
tess_status tess_qkv_forward(const tess_layer_call *call, const void *y, const tess_layer_saved *saved);
/* Parameter gradients, and dy (T, C); NULL: not needed. */
tess_status tess_qkv_backward(const tess_layer_call *call, const void *y, const tess_layer_saved *saved,
                              const tess_layer_work *work, void *dy);
bool tess_qkv_trains(const tess_layer_call *call);

/* q_raw, k_raw -> q, k: norms over each head's channels, then rotary positions, if the family has them. */
tess_status tess_heads_forward(const tess_layer_call *call, const tess_layer_saved *saved);
/* Gradients of attention's q, k -> of the projections: in dq, dk, or with norms in q, k, which are no longer needed. */
tess_status tess_heads_backward(const tess_layer_call *call, const tess_layer_saved *saved,
                                const tess_layer_work *work);
/* The part of it after the rotation: from dq, dk as it has left them. */
tess_status tess_head_norms_backward(const tess_layer_call *call, const tess_layer_saved *saved,
                                     const tess_layer_work *work);

/* q, k, v -> out. */
tess_status tess_attention_forward(const tess_layer_call *call, const tess_layer_saved *saved,
                                   tess_attention_seq *seqs);
/* dout -> dq, dk, dv. */
tess_status tess_attention_backward(const tess_layer_call *call, const tess_layer_saved *saved,
                                    const tess_layer_work *work);
/* The same with shared key heads (tess_block_shares_key_heads). Collective. */
tess_status tess_shared_attention_forward(const tess_layer_call *call, const tess_layer_saved *saved,
                                          tess_attention_seq *seqs);
tess_status tess_shared_attention_backward(const tess_layer_call *call, const tess_layer_saved *saved,
                                           const tess_layer_work *work);

/* ---- Linear: y (T, n_out) = x (T, n_in) W + b, rows of x, y contiguous ---- */
tess_status tess_linear_forward(const tess_layer_call *call, const tess_linear *linear, const void *x, void *y);
/* Parameter gradients, the adapter's too. */
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
/* Whether parameter gradients need x: that of a bias does not. */
bool tess_linear_reads_input(const tess_layer_call *call, const tess_linear *linear);

/* Several maps of one input (at most 1 + TESS_GEMM_TERMS, stored alike): its gradient is their sum, added up in float32
 * and rounded once. `fusing` as tess_gemm_fused_work says. */
typedef struct tess_linear_grad {
    const tess_linear *linear;
    const void *dy;
} tess_linear_grad;
tess_status tess_linear_backward_inputs(const tess_layer_call *call, const tess_linear_grad *grads, int n, void *fusing,
                                        void *dx);

/* up = x W + b, act = f(up), or f(gate) * up where there is a gate; in one product. */
tess_status tess_linear_act_forward(const tess_layer_call *call, const tess_linear *linear, const void *x, void *gate,
                                    void *up, void *act);
/* dact = dy W^T, and from it dgate and dup, in the place of gate and up, and act again (NULL: not wanted); in one
 * product. */
tess_status tess_linear_act_backward(const tess_layer_call *call, const tess_linear *linear, const void *dy, void *gate,
                                     void *up, void *act, void *fusing);

/* ---- The same of W and b alone, and of this rank's inputs and outputs where ranks share them ---- */
tess_status tess_linear_own_forward(const tess_layer_call *call, const tess_linear *linear, const void *x, void *y,
                                    tess_dtype y_dtype);
/* accumulate adds to what is there (weight only). */
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

/* ---- The same of maps with an adapter ---- */
tess_status tess_low_rank_forward(const tess_layer_call *call, const tess_linear *linear, const void *x, void *y);
/* The gradients of the adapter alone. */
tess_status tess_low_rank_backward_params(const tess_layer_call *call, const tess_linear *linear, const void *x,
                                          const void *dy);
/* Adds the adapter's part of a product whose contracted index ranks share: sum (m, n) += scale (operand F) G, rounded
 * between the two. The operand has m rows with all of the contracted index (`ld` elements apart); the outputs are
 * [first, first + n). forward: F is A^T, G is B^T; else B and A. */
tess_status tess_low_rank_add(const tess_layer_call *call, const tess_linear *linear, bool forward, const void *operand,
                              int64_t ld, int64_t m, int64_t first, int64_t n, float *sum);
/* One of the maps has an adapter. */
tess_status tess_low_rank_backward_inputs(const tess_layer_call *call, const tess_linear_grad *grads, int n,
                                          void *fusing, void *dx);
tess_status tess_low_rank_act_forward(const tess_layer_call *call, const tess_linear *linear, const void *x, void *gate,
                                      void *up, void *act);
tess_status tess_low_rank_act_backward(const tess_layer_call *call, const tess_linear *linear, const void *dy,
                                       void *gate, void *up, void *act, void *fusing);

/* ---- Products of a layer that ranks share. Arguments and bits are those of the functions without `split`; x, dy and
 * the weight are this rank's part, y and dx belong to the stream. ---- */
tess_status tess_split_forward(const tess_layer_call *call, const tess_linear *linear, const void *x, void *y);
tess_status tess_split_backward_inputs(const tess_layer_call *call, const tess_linear_grad *grads, int n, void *fusing,
                                       void *dx);
/* Gradients of a matrix and bias that every rank stores whole, of which each has computed its outputs. */
tess_status tess_split_gather_params(const tess_layer_call *call, const tess_linear *linear);
/* Whether ranks exchange partial sums: the share of each is leaves of a sum over `channels` that make a subtree. */
static inline bool tess_exchanges_sums(tess_cut channels, int64_t leaf, int degree)
{
    int64_t begin, share;
    tess_cut_range(channels, degree, 0, &begin, &share);
    return degree > 1 && leaf > 0 && share % leaf == 0 && (share / leaf & (share / leaf - 1)) == 0;
}
/* The same as above by partial sums. */
tess_status tess_sum_forward(const tess_layer_call *call, const tess_linear *linear, const void *x, void *y);
tess_status tess_sum_backward_inputs(const tess_layer_call *call, const tess_linear_grad *grads, int n, void *fusing,
                                     void *dx);
/* Gradients of n_rows rows, `ld` elements apart, of which each rank has some columns in their place. */
tess_status tess_split_gather_gradient(const tess_layer_call *call, tess_cut columns, float *mine, int64_t n_rows,
                                       int64_t ld);
/* (T, columns) of elements of any size: `mine` of each rank, contiguous, becomes `into`, rows into_ld apart. */
tess_status tess_split_gather(const tess_layer_call *call, tess_cut columns, size_t element, const void *mine,
                              void *into, int64_t into_ld);
/* The way back, without the others: `whole` (T, columns) of the compute dtype -> this rank's part of it, contiguous. */
tess_status tess_split_own(const tess_layer_call *call, tess_cut columns, const void *whole, void *mine);
/* dx is this rank's part; the weight's gradient is whole on every rank. */
tess_status tess_split_head_norm_backward(const tess_layer_call *call, const tess_norm *norm, tess_cut heads,
                                          const void *x, const float *rstd, const void *dy, void *dx);

/* ---- The stream, of which each rank that shares a layer has all rows, or some ---- */
/* *whole (T, C) of this rank's rows (R, C): in `room` (T, C), where they may lie in their place, or `own` itself. */
tess_status tess_stream_gather(const tess_layer_call *call, const void *own, void *room, const void **whole);
/* Between (R, columns), and the columns of all T rows that are this rank's, contiguous. */
tess_status tess_stream_from_columns(const tess_layer_call *call, tess_cut columns, const void *mine, void *stream);
tess_status tess_stream_to_columns(const tess_layer_call *call, tess_cut columns, const void *stream, void *mine);
/* Gradients of a norm's parameters, whole on every rank, if ranks share the stream. */
tess_status tess_stream_norm_params(const tess_layer_call *call, const tess_norm *norm, const void *h,
                                    tess_norm_stats stats, const void *dy);

/* ---- Norms over C channels (rows contiguous) ---- */
/* h = x + residual (R, C), y (T, C) = norm(h), as the kernels say; residual, h and stats' members may be NULL. */
tess_status tess_norm_forward(const tess_layer_call *call, const tess_norm *norm, const void *x, const void *residual,
                              void *h, void *y, tess_norm_stats stats);
/* dh = dresidual + norm'(dy), (R, C) each. */
tess_status tess_norm_backward(const tess_layer_call *call, const tess_norm *norm, const void *h, tess_norm_stats stats,
                               const void *dy, const void *dresidual, void *dh);
/* y = norm(h) as in forward; saves no statistics. */
tess_status tess_norm_again(const tess_layer_call *call, const tess_norm *norm, const void *h, void *y);
bool tess_norm_trains(const tess_layer_call *call, const tess_norm *norm);

/* RMSNorm over the D channels of each of a token's heads. */
tess_status tess_head_norm_forward(const tess_layer_call *call, const tess_norm *norm, int64_t n_heads, const void *x,
                                   float *rstd, void *y);
/* heads: how the ranks that share the layer cut them. */
tess_status tess_head_norm_backward(const tess_layer_call *call, const tess_norm *norm, tess_cut heads, const void *x,
                                    const float *rstd, const void *dy, void *dx);

/* ---- Embedding ---- */
/* h (R, C) = table[ids] + positions[pos], if the family has positions. */
tess_status tess_embedding_forward(const tess_layer_call *call, void *h);
tess_status tess_embedding_backward(const tess_layer_call *call, const void *dh);

/* ---- Head: logits exist for a chunk of rows at a time ---- */
/* Rows of a chunk: a function of the vocabulary alone, since it is part of the order of the weight's gradient sum. */
int64_t tess_head_chunk(int64_t vocab_size);

/* Elements between rows of logits: V, up to whole cache lines. */
int64_t tess_head_row(int64_t vocab_size);

typedef struct tess_head_work {
    float *logits;                        /* (chunk, V), rows tess_head_row(V) apart */
    float *entropy, *dlogprob, *dentropy; /* (T) of a token loss */
    float *value;                         /* (T) of a value head next to a language model's; else NULL */
    void *dvalue;                         /* (T) in the compute dtype, of any value head */
    float *graded;                        /* (4, T) of the host: what a token loss is shown, and what it says */
    void *own_weight;                     /* (V / degree, C) where ranks share the head; else NULL */
    float *own_logits;                    /* (chunk, V / degree), likewise */
} tess_head_work;

/* y (T, C) -> logits (T, V), contiguous. */
tess_status tess_head_logits(const tess_layer_call *call, const tess_head_work *work, const void *y, float *logits);
/* y (T, C) -> log-probabilities of the batch's targets (T); entropy (T) may be NULL. */
tess_status tess_head_forward(const tess_layer_call *call, const tess_head_work *work, const void *y,
                              float inv_temperature, float *logprob, float *entropy);
/* Forward and backward at once: y (T, C) becomes dy (if wanted); the weight's gradient is overwritten. Gradients of
 * logits, in the compute dtype, overwrite them. loss NULL: the sum of -log p(target). */
tess_status tess_head_train(const tess_layer_call *call, const tess_token_loss *loss, const tess_head_work *work,
                            void *y, bool want_dy, float *logprob);

/* ---- A value head, which one rank has whole ---- */
/* y (T, C) -> value (T). */
tess_status tess_value_forward(const tess_layer_call *call, const void *y, float *value);
/* The values, their derivatives, and the gradients of the head's parameters. loss may be NULL where there are no
 * tokens. */
tess_status tess_value_train(const tess_layer_call *call, const tess_token_loss *loss, const tess_head_work *work,
                             const void *y, float *value);
/* Computes dy (T, C) from those derivatives. aside: work space (T, C), and they are added to dy; NULL: they replace it.
 */
tess_status tess_value_backward(const tess_layer_call *call, const tess_head_work *work, void *dy, void *aside);

/* ---- Rotary positions ---- */
/* cos, sin (length, D/2) as transformers computes them for this config and a text of `limit` tokens. Dynamic scaling
 * depends on that: it is the model's position limit for every row, so that rows stay independent of batch and request.
 */
void tess_rope_tables(const tess_rope_config *rope, int64_t head_size, int64_t limit, int64_t length, float *cos_table,
                      float *sin_table);
/* inv_freq (D/2); returns the factor that cos and sin are scaled by. */
double tess_rope_frequencies(const tess_rope_config *rope, int64_t head_size, int64_t limit, float *inv_freq);

#endif
