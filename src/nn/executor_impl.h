/* The executor's insides: the plan of its memory, and the passes over it. */
#ifndef TESS_NN_EXECUTOR_IMPL_H
#define TESS_NN_EXECUTOR_IMPL_H

#include "nn/layers/layers.h"

/* What a layer keeps from its forward to its backward, in elements a token (C hidden, Q = H D, K = G D, F
 * feed-forward): h                       C        the layer's input, the only thing kept of a checkpointed layer
 *   attention q k v out     2Q + 2K  after rotation; before the q/k norms where there are any
 *   h2                      C        the stream between attention and feed-forward
 *   mlp gate up             2F       (GPT-2: F)
 * and in float32: norm statistics (1 or 2, twice), log-sum-exp (H), with q/k norms H + G more.
 * Norm outputs, normed q and k, and the activation are computed again in backward: they cost a pass over memory each,
 * and would be 2C + F more. */
typedef struct tess_layer_saved {
    void *h, *h2; /* (T, C); one buffer without backward */
    tess_norm_stats input_stats, mlp_stats;
    tess_attention_saved attention;
    tess_mlp_saved mlp;
} tess_layer_saved;

struct tess_executor {
    tess_stream *stream;
    const tess_model *model;
    tess_hooks hooks;
    tess_executor_options options;
    void *block;              /* all activations */
    tess_layer_saved *layers; /* (L) */
    /* (T, C) each. Forward: a holds the newest sublayer's output, b the newest norm's. Backward: c is the gradient of
     * the stream, a the gradient of a norm's output, b a norm's output again. */
    void *a, *b, *c;
    void *fusing; /* work space of fused products, see tess_gemm_fused_work */
    tess_norm_stats final_stats;
    tess_attention_work attention;
    void *act; /* (T, F) */
    tess_head_work head;
    float *cos_table, *sin_table;
    tess_watch watch; /* see NULL: nobody */
};

bool tess_executor_recomputes(const tess_executor_options *options, int64_t layer);

/* Lays the memory out from `base` on and sets all pointers (layers[] only when there is one); base NULL only counts.
 * Returns the bytes, SIZE_MAX when they do not fit an integer. */
size_t tess_executor_plan(tess_executor *executor, char *base);

/* Sizes, ids, positions, targets in range. */
tess_status tess_executor_check_batch(const tess_executor *executor, const tess_batch *batch);

tess_run tess_executor_run(const tess_executor *executor, const tess_batch *batch);
tess_attention_call tess_executor_attention(const tess_executor *executor, const tess_batch *batch, int64_t layer);

/* (T, row) of the run's dtype, for who watches. */
void tess_executor_show(const tess_executor *executor, const tess_run *run, int unit, const char *what, void *data,
                        int64_t row);

/* Embedding and layers: the last layer's stream is in layers[L-1].h2 plus a. */
tess_status tess_executor_forward(tess_executor *executor, const tess_batch *batch);
/* The final norm: stream to a, normed to b. `run` has the head unit's window. */
tess_status tess_executor_final_norm(tess_executor *executor, const tess_run *run);

#endif
