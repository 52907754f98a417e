/* The parameters and tensors of the parts at a model's ends, the embedding and the head, and the pieces of the head. */
#ifndef TESS_NN_LAYERS_MODEL_ENDS_H
#define TESS_NN_LAYERS_MODEL_ENDS_H

#include "nn/layers/block_part.h"

typedef struct tess_embedding_params {
    int positions;     /* index of the table of positions; -1: none */
    tess_cut channels; /* how the ranks that share the tables cut their columns */
    bool tied;         /* the head multiplies by the block's table, too */
    float factor;      /* factor of the table's rows; 0: none */
    bool rounds;       /* the factor is rounded to the compute dtype */
} tess_embedding_params;

typedef struct tess_head_params {
    tess_norm norm;   /* the norm before the map to logits */
    tess_linear head; /* the map to logits, of this block or, if tied, of the embedding */
    /* the map to the value of a row; equals `head` if the model is no language model; weight -1: no value head */
    tess_linear value;
    float factor, soft_cap; /* factor and soft cap of logits (tess_cross_entropy); 0: none */
} tess_head_params;

typedef struct tess_head_tensors {
    tess_norm_stats stats;                /* (R) */
    float *logits;                        /* (chunk, V), rows tess_head_row(V) apart */
    float *entropy, *dlogprob, *dentropy; /* (T) values of a token loss */
    float *value;                         /* (T) values of a value head next to a language model's head; else NULL */
    void *dvalue;                         /* (T) in the compute dtype, for any value head */
    void *own_weight;                     /* (V / degree, C) if ranks share the head; else NULL */
    float *own_logits;                    /* (chunk, V / degree) if ranks share the head; else NULL */
} tess_head_tensors;

/* ---- Head: logits exist for a chunk of rows at a time ---- */
/* The number of rows of a chunk; logit_bytes as in tess_executor_options. It depends on nothing else, since it is part
 * of the order of the weight's gradient sum. */
int64_t tess_head_chunk(int64_t vocab_size, size_t logit_bytes);

/* Elements between rows of logits: V, rounded up to whole cache lines. */
int64_t tess_head_row(int64_t vocab_size);

/* Computes logits (T, V), contiguous, from y (T, C). */
tess_status tess_head_logits(const tess_layer_call *call, const tess_head_tensors *work, const void *y, float *logits);
/* Computes log-probabilities of the batch's targets (T) from y (T, C); entropy (T) may be NULL. */
tess_status tess_head_forward(const tess_layer_call *call, const tess_head_tensors *work, const void *y,
                              float inv_temperature, float *logprob, float *entropy);
/* Runs forward and backward. y (T, C) becomes dy, if wanted. The weight's gradient is overwritten. Gradients of
 * logits, in the compute dtype, overwrite the logits. loss NULL: the sum of -log p(target). */
tess_status tess_head_train(const tess_layer_call *call, const tess_token_loss *loss, const tess_head_tensors *work,
                            void *y, bool want_dy, float *logprob);

/* ---- A value head: every rank has it whole ---- */
/* Computes values (T) from y (T, C). */
tess_status tess_value_forward(const tess_layer_call *call, const void *y, float *value);
/* Computes the values, the loss's derivatives with respect to them, and the gradients of the head's parameters. loss
 * may be NULL if there are no tokens. */
tess_status tess_value_train(const tess_layer_call *call, const tess_token_loss *loss, const tess_head_tensors *work,
                             const void *y, float *value);
/* Computes dy (T, C) from the derivatives that tess_value_train has left in `work`. aside: work space (T, C): the
 * result is added to dy; NULL: the result replaces dy. */
tess_status tess_value_backward(const tess_layer_call *call, const tess_head_tensors *work, void *dy, void *aside);

#endif
