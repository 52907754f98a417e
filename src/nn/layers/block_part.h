/* A block is a list of parts: attention and feed-forward in a layer, the embedding, the head. A part describes its
 * tensors in a table, from which the executor plans memory, and computes them in functions that the executor calls in
 * order. So the executor knows no kinds of blocks; the mathematics of each part is in its own file. */
#ifndef TESS_NN_LAYERS_BLOCK_PART_H
#define TESS_NN_LAYERS_BLOCK_PART_H

#include <stddef.h>
#include <string.h>

#include "nn/block.h"

typedef struct tess_layer_call tess_layer_call; /* layers.h */

typedef struct tess_norm_stats {
    float *mean, *rstd; /* (rows); mean for LayerNorm only */
} tess_norm_stats;

typedef struct tess_head_work {
    float *logits;                        /* (chunk, V), rows tess_head_row(V) apart */
    float *entropy, *dlogprob, *dentropy; /* (T) values of a token loss */
    float *value;                         /* (T) values of a value head next to a language model's head; else NULL */
    void *dvalue;                         /* (T) in the compute dtype, for any value head */
    float *graded;                        /* (4, T) host memory: a token loss's two inputs and two results */
    void *own_weight;                     /* (V / degree, C) if ranks share the head; else NULL */
    float *own_logits;                    /* (chunk, V / degree) if ranks share the head; else NULL */
} tess_head_work;

/* The tensors of one unit, a row per token. Backward recomputes norm outputs, normed q and k, and the activation: each
 * costs a pass over memory, and saving them would take 2C + F more per token. */
typedef struct tess_tensors {
    /* Work space that all units share. All layers use one gradient of the stream, and `branch` also holds both dy. With
     * `deferred`, a layer has dh3, dh2, dy_mlp and dy_input to itself. */
    void *y;                  /* (T, C) output of the latest norm */
    void *branch;             /* (R, C) what the latest part adds to the stream */
    void *dh3, *dh2, *dh;     /* (R, C) the stream's gradient after the block, at h2 and at h */
    void *dy_mlp, *dy_input;  /* (R, C) gradients of the norms' outputs */
    void *fusing;             /* work space of fused products in backward (tess_gemm_fused_work) */
    tess_attention_seq *seqs; /* (n_seqs) descriptors, in host memory */
    bool deferred;            /* the parameters' gradients are computed later, from the tensors kept here */
    unsigned dropped;         /* groups (tess_layer_group) whose memory layers share: backward computes them again */

    void *h;                     /* (R, C) the block's input; a source writes its output here */
    tess_norm_stats input_stats; /* (R) */
    void *q_raw, *k_raw, *v;     /* (T, H, D), (T, G, D), (T, G, D) before the norms of q and k */
    void *q, *k;                 /* inputs of attention: the same as q_raw and k_raw, or, with norms, work space */
    float *q_rstd, *k_rstd;      /* (T, H), (T, G), only with norms of q and k */
    void *out, *dout;            /* (T, H, D) output of attention */
    float *lse;                  /* (T, H) log-sum-exp */
    void *dq, *dk, *dv;          /* gradients of q, k, v, in the same layout */

    /* (R, C) the stream between attention and feed-forward; equals h if there is no backward */
    void *h2;
    tess_norm_stats mlp_stats; /* (R) */
    void *gate, *up;           /* (T, F); gate only if the family has one */
    void *act;                 /* (T, F) */

    tess_head_work head;
} tess_tensors;

/* Sizes are numbers in an array, by which tables name the rows and columns of tensors. These belong to all parts; each
 * part numbers its own ones from TESS_OWN_DIMS on. They are this rank's sizes. A block without a tensor has a size of
 * -1 for it. */
enum {
    TESS_DIM_ONE,
    TESS_DIM_T,    /* tokens */
    TESS_DIM_R,    /* the largest number of rows of the stream */
    TESS_DIM_C,    /* channels */
    TESS_DIM_MEAN, /* 1 if the block's norms have means */
    TESS_OWN_DIMS,
    TESS_N_DIMS = 16
};

/* Uses of a tensor, from which its place in memory follows. */
typedef enum tess_tensor_use {
    TESS_TENSOR_SAVED = 1,       /* forward writes it, backward reads it */
    TESS_TENSOR_FORWARD = 2,     /* forward needs it even if no backward follows */
    TESS_TENSOR_BACKWARD = 4,    /* work space of backward */
    TESS_TENSOR_WEIGHTS = 8,     /* the input part of a backward leaves it to the weight part */
    TESS_TENSOR_STREAM = 16,     /* a saved stream; without backward all blocks of a slot share one */
    TESS_TENSOR_OVERWRITTEN = 32 /* saved; backward overwrites it with a gradient */
} tess_tensor_use;

typedef struct tess_tensor_row {
    size_t at;         /* offset of its pointer in tess_tensors */
    int rows, columns; /* named sizes */
    bool is_float;     /* true: float32; false: the compute dtype */
    unsigned uses;     /* tess_tensor_use */
    unsigned group;    /* the group (tess_layer_group) of a saved tensor; 0: it is never computed again */
} tess_tensor_row;

/* A part of a block. Most parts read the stream and add to it: such a part leaves its sum in two tensors, its input
 * and `branch`, which the next part adds. The first part of a block may be a source, which makes the stream, and the
 * last one a sink, which ends it. */
struct tess_part {
    const char *name;
    bool source;  /* the part reads no stream; its backward runs whole in the weight part */
    bool sink;    /* the part leaves no stream; its backward runs whole in the input part */
    size_t input; /* offset in tess_tensors of the stream that it reads; a source's output */
    const tess_tensor_row *tensors;
    int n_tensors;
    const size_t
        *maps; /* (n_maps) offsets in tess_block of its linear maps, which ranks may share and adapters change */
    int n_maps;
    /* Writes the part's own sizes; those of all parts are already there. NULL: it has none. */
    void (*sizes)(const tess_model *model, const tess_block *block, int64_t sizes[TESS_N_DIMS]);
    /* Sets the pointers to tensors that are columns of others, after memory is planned. NULL: there are none. */
    void (*place_views)(const tess_block *block, size_t element, tess_tensors *tensors);
    /* Runs forward. The part's input is the sum of `before` and `branch`; `before` NULL: it is ready. In backward
     * (call->dw is set) it computes only these dropped groups again, and what else backward reads. A sink only prepares
     * what train and evaluate read. */
    tess_status (*forward)(const tess_layer_call *call, const tess_tensors *tensors, const void *before,
                           unsigned groups);
    /* Runs backward. A sink has none.
     * inputs: false: computes only the parameters' gradients, after a backward with `deferred` that computed none
     * want_din: whether the gradient of the block's input is wanted */
    tess_status (*backward)(const tess_layer_call *call, const tess_tensors *tensors, bool inputs, bool want_din);
    /* Only a sink has these two. `lent` is the call of the unit that owns the matrix of the map to logits.
     * train: runs forward and backward, after `forward`
     * evaluate: computes the results of a task, after `forward` */
    tess_status (*train)(const tess_layer_call *call, const tess_layer_call *lent, const tess_tensors *tensors,
                         const tess_backward *backward, bool want_din);
    tess_status (*evaluate)(const tess_layer_call *call, const tess_layer_call *lent, const tess_tensors *tensors,
                            const tess_head_task *task);
    /* Operations per token in forward and backward, without those of a layer's matrices. NULL: there are none. */
    double (*flops)(const tess_block *block, int64_t seq_len);
};

extern const tess_part tess_embedding_part, tess_attention_part, tess_feed_forward_part, tess_head_part;

/* The pointer at an offset, which may be that of a part's input or of a row. */
static inline void *tess_tensor_get(const tess_tensors *tensors, size_t at)
{
    void *tensor;
    memcpy(&tensor, (const char *)tensors + at, sizeof(tensor));
    return tensor;
}

static inline void tess_tensor_set(tess_tensors *tensors, size_t at, void *tensor)
{
    memcpy((char *)tensors + at, &tensor, sizeof(tensor));
}

#endif
