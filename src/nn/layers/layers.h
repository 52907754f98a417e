/* Blocks of a layer: forward and backward as calls of the kernel table. They own nothing: weights come from the unit's
 * window, activations from the executor's plan. T tokens, C channels, H query heads, G key/value heads, D head size, F
 * feed-forward channels. */
#ifndef TESS_NN_LAYERS_H
#define TESS_NN_LAYERS_H

#include "device/stream.h"
#include "nn/layout.h"

/* Where a block runs: the unit's parameters, and their gradients in backward (entries NULL when frozen). */
typedef struct tess_run {
    tess_stream *stream;
    const tess_kernels *kernels;
    tess_dtype dtype;
    int64_t T;
    const void *const *w;
    float *const *dw; /* NULL in forward */
} tess_run;

static inline void *tess_at(const tess_run *run, const void *base, int64_t element)
{
    return (char *)(uintptr_t)base + element * (int64_t)tess_dtype_size(run->dtype);
}

static inline bool tess_wants(const tess_run *run, int param)
{
    return param >= 0 && run->dw[param] != NULL;
}

/* ---- Linear: y (T, n_out) = x (T, n_in) W + b, rows of x, y contiguous --------------------------------------------
 */
tess_status tess_linear_forward(const tess_run *run, const tess_linear *linear, const void *x, void *y,
                                tess_dtype y_dtype);
/* Parameter gradients; accumulate adds to what is there (weight only). */
tess_status tess_linear_backward_params(const tess_run *run, const tess_linear *linear, const void *x, const void *dy,
                                        bool accumulate);
/* dx = dy W^T. */
tess_status tess_linear_backward_input(const tess_run *run, const tess_linear *linear, const void *dy, void *dx);
bool tess_linear_trains(const tess_run *run, const tess_linear *linear);

/* The products behind them, for callers that fuse something to them. */
tess_gemm tess_linear_product(const tess_run *run, const tess_linear *linear, const void *x, void *y,
                              tess_dtype y_dtype);
tess_gemm tess_linear_input_product(const tess_run *run, const tess_linear *linear, const void *dy, void *dx);

/* Several maps of one input (at most 1 + TESS_GEMM_TERMS, stored alike): its gradient is their sum, added up in float32
 * and rounded once. `work` as tess_gemm_fused_work says. */
typedef struct tess_linear_grad {
    const tess_linear *linear;
    const void *dy;
} tess_linear_grad;
tess_status tess_linear_backward_inputs(const tess_run *run, const tess_linear_grad *grads, int n, void *work,
                                        void *dx);

/* ---- Norms over C channels (rows contiguous) ------------------------------------------------------------------------
 */
typedef struct tess_norm_stats {
    float *mean, *rstd; /* (rows); mean for LayerNorm only */
} tess_norm_stats;

/* h = x + residual, y = norm(h), as the kernels say; stats' members may be NULL. */
tess_status tess_norm_forward(const tess_run *run, const tess_norm *norm, bool layer_norm, double eps, int64_t rows,
                              int64_t C, const void *x, const void *residual, void *h, void *y, tess_norm_stats stats);
tess_status tess_norm_backward(const tess_run *run, const tess_norm *norm, bool layer_norm, int64_t rows, int64_t C,
                               const void *h, tess_norm_stats stats, const void *dy, const void *dresidual, void *dx);

/* ---- Attention ------------------------------------------------------------------------------------------------------
 */
/* Elements between tokens of q, and of k and v: without norms on q and k all three of a token lie together. */
typedef struct tess_attention_rows {
    int64_t q, kv;
    bool together;
} tess_attention_rows;
tess_attention_rows tess_attention_rows_of(const tess_model_config *config);

/* Kept from forward to backward: T (H + 2 G + H) D elements, T H floats (and T (H + G) floats with q/k norms). */
typedef struct tess_attention_saved {
    void *q, *k,
        *v; /* (T, H, D), (T, G, D), (T, G, D): as the kernel sees them; q, k before their norms when there are any */
    void *out;              /* (T, H, D) */
    float *lse;             /* (T, H) */
    float *q_rstd, *k_rstd; /* (T, H), (T, G) with q/k norms */
} tess_attention_saved;

/* Work space of one attention at a time. */
typedef struct tess_attention_work {
    void *q, *k;              /* like saved q, k: normed and rotated, with q/k norms only */
    void *dout;               /* (T, H, D), backward */
    void *dq, *dk, *dv;       /* backward */
    void *fusing;             /* work space of fused products, backward */
    tess_attention_seq *seqs; /* (n_seqs) */
} tess_attention_work;

/* What attention needs to know of the batch and of the layer. */
typedef struct tess_attention_call {
    const tess_layout *layout;
    const tess_model_config *config;
    const tess_batch *batch;
    int64_t layer;
    tess_attention_rows rows; /* of saved q, k, v, and of work's dq, dk, dv */
    const float *cos_table, *sin_table;
} tess_attention_call;

/* y (T, C) -> projected (T, C). With a cache: keys and values go to the layer's cache rows and attention reads them
 * there. */
tess_status tess_attention_block_forward(const tess_run *run, const tess_attention_call *call, const void *y,
                                         const tess_attention_saved *saved, const tess_attention_work *work,
                                         void *projected);
/* dprojected (T, C) -> dy (T, C), NULL when nobody needs it; y again as in forward. */
tess_status tess_attention_block_backward(const tess_run *run, const tess_attention_call *call, const void *y,
                                          const tess_attention_saved *saved, const tess_attention_work *work,
                                          const void *dprojected, void *dy);

/* ---- Feed-forward ---------------------------------------------------------------------------------------------------
 */
/* gate, up (T, F), kept for backward; without a gate `gate` is unused. Backward overwrites them. */
typedef struct tess_mlp_saved {
    void *gate, *up;
} tess_mlp_saved;

/* The part that backward needs again after recomputing: y -> gate, up. */
tess_status tess_mlp_forward_up(const tess_run *run, const tess_layout *layout, const void *y,
                                const tess_mlp_saved *saved);
/* y -> gate, up -> out (T, C); act (T, F) is work space. */
tess_status tess_mlp_forward(const tess_run *run, const tess_layout *layout, const void *y, const tess_mlp_saved *saved,
                             void *act, void *out);
/* `fusing`: work space of fused products. dy may not be dout. */
tess_status tess_mlp_backward(const tess_run *run, const tess_layout *layout, const void *y,
                              const tess_mlp_saved *saved, void *act, void *fusing, const void *dout, void *dy);

/* ---- Head: logits exist for a chunk of rows at a time --------------------------------------------------------------
 */
/* Rows of a chunk: a function of the vocabulary alone, since it is part of the order of the weight's gradient sum. */
int64_t tess_head_chunk(int64_t vocab_size);

/* Elements between rows of logits: V, up to whole cache lines. */
int64_t tess_head_row(int64_t vocab_size);

typedef struct tess_head_work {
    /* (chunk, V), rows tess_head_row(V) apart; their gradients, of the compute dtype, take their place. */
    float *logits;
} tess_head_work;

tess_status tess_head_forward(const tess_run *run, const tess_linear *head, const void *y, const int32_t *targets,
                              const tess_head_work *work, float *logprob, float *entropy);
/* Forward and backward at once: y (T, C) becomes dy (when wanted); the weight's gradient is overwritten. */
tess_status tess_head_train(const tess_run *run, const tess_linear *head, void *y, const int32_t *targets,
                            const tess_head_work *work, bool want_dy, float *logprob);

/* ---- Rotary positions -----------------------------------------------------------------------------------------------
 */
/* cos, sin (length, D/2) as transformers computes them for this config. Dynamic scaling depends on the longest
 * sequence: it is `length` for every row, so that rows stay independent of their batch. */
void tess_rope_tables(const tess_rope_config *rope, int64_t head_size, int64_t length, float *cos_table,
                      float *sin_table);
/* inv_freq (D/2); returns the factor that cos and sin are scaled by. */
double tess_rope_frequencies(const tess_rope_config *rope, int64_t head_size, int64_t length, float *inv_freq);

#endif
