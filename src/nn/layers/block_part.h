/* A block is a list of parts: attention and feed-forward in a layer, the embedding, the head. A part describes its
 * tensors in a table, from which the executor plans memory, and computes them in functions that the executor calls in
 * order. Its parameters and tensors are structs of its own. So the executor knows no kinds of blocks; the mathematics
 * of each part is in its own file. */
#ifndef TESS_NN_LAYERS_BLOCK_PART_H
#define TESS_NN_LAYERS_BLOCK_PART_H

#include <stddef.h>
#include <string.h>

#include "nn/block.h"

typedef struct tess_layer_call tess_layer_call; /* layers.h */

typedef struct tess_norm_stats {
    float *mean, *rstd; /* (rows); mean for LayerNorm only */
} tess_norm_stats;

/* The tables of rotary positions. LOCAL: those of layers with a window, if they have their own; QUERY: the main one,
 * times a factor by position. */
typedef enum tess_rope_table {
    TESS_ROPE_NONE,
    TESS_ROPE_MAIN,
    TESS_ROPE_LOCAL,
    TESS_ROPE_QUERY,
    TESS_N_ROPES
} tess_rope_table;

/* A branch ends with these steps, before its result is added to the stream. */
typedef struct tess_branch_end {
    tess_norm norm; /* weight -1: none */
    float factor;   /* 0: none */
} tess_branch_end;

/* The tensors that a part is called with. The executor plans the stream around each part, and work space that all units
 * share; the part's table describes the others. */
typedef struct tess_tensors {
    void *own;  /* the part's struct of pointers */
    void *host; /* the part's room in the host's memory from forward to the end of backward (tess_placed_part) */
    /* (R, C) the stream that the part reads, with no backward the same memory for all parts; a source writes it */
    void *in;
    /* (R, C) the stream's gradient after the part, which backward only reads, and at its input. They may be the same
     * memory, unless the part is `deferred` */
    void *dout, *din;
    /* (R, C) the gradient to which the part adds its own: dout, or the din of a parallel part after it */
    const void *dsum;
    void *dy;         /* (R, C) room for the gradient of the norm's output, which the input part of a backward leaves */
    void *y;          /* (T, C) output of the latest norm */
    void *branch;     /* (R, C) what the latest part adds to the stream; in backward work space */
    bool adds;        /* the part is parallel: `branch` has the result of the part before it */
    bool deferred;    /* the parameters' gradients are computed later, from the tensors kept here */
    unsigned dropped; /* groups (tess_layer_group) whose memory layers share: backward computes them again */
} tess_tensors;

/* Sizes are numbers in an array, by which tables name the rows and columns of tensors. These belong to all parts; each
 * part numbers its own ones from TESS_OWN_DIMS on. They are this rank's sizes. A block without a tensor has a size of
 * -1 for it. */
enum {
    TESS_DIM_ONE,
    TESS_DIM_T,             /* tokens */
    TESS_DIM_R,             /* the largest number of rows of the stream */
    TESS_DIM_C,             /* channels */
    TESS_DIM_MEAN,          /* 1 if the block's norms have means */
    TESS_DIM_LEAVES,        /* leaves of a sum over this rank's tokens */
    TESS_DIM_CONTEXT_RANKS, /* ranks that divide the tokens of a batch; 0: sums over tokens have no leaves */
    TESS_DIM_LOGITS,        /* rows of logits that are in memory at the same time */
    TESS_OWN_DIMS,
    TESS_N_DIMS = 32
};

/* Uses of a tensor, from which its place in memory follows. */
typedef enum tess_tensor_use {
    TESS_TENSOR_SAVED = 1,    /* forward writes it, backward reads it */
    TESS_TENSOR_FORWARD = 2,  /* forward needs it even if no backward follows */
    TESS_TENSOR_BACKWARD = 4, /* work space of backward */
    TESS_TENSOR_WEIGHTS = 8,  /* the input part of a backward leaves it to the weight part */
    /* saved, in TESS_GROUP_FEED_FORWARD; backward overwrites it with a gradient, so a backward in two parts computes
     * that group twice */
    TESS_TENSOR_OVERWRITTEN = 16
} tess_tensor_use;

typedef struct tess_tensor_row {
    size_t at;         /* offset of its pointer in the part's struct of tensors */
    int rows, columns; /* named sizes */
    bool is_float;     /* true: float32; false: the compute dtype */
    unsigned uses;     /* tess_tensor_use */
    unsigned group;    /* the group (tess_layer_group) of a saved tensor; 0: it is never computed again */
} tess_tensor_row;

/* Work space that units share, in elements for each token. Each part enlarges it to what it needs. */
typedef struct tess_part_room {
    int64_t activated; /* outputs of tess_linear_act_backward */
    int64_t grouped;   /* rows for each token of products that are computed as one group; 0: there are none */
    /* inputs or outputs of a product that are not the stream, all its terms together: this rank's ones, and the whole
     * ones of maps that ranks share */
    int64_t width, shared;
    int64_t operands, rstd; /* elements of tess_split_work, in addition to the operands of `shared` */
    bool sums;              /* low_rank.sum is needed, even with float32 */
} tess_part_room;

/* A part of a block. Most parts read the stream and add to it: such a part leaves its sum in two tensors, its input
 * and `branch`, which the next part adds. The first part of a block may be a source, which makes the stream, and the
 * last one a sink, which ends it. */
struct tess_part {
    const char *name;
    bool source;                  /* the part reads no stream; its backward runs whole in the weight part */
    bool sink;                    /* the part leaves no stream; its backward runs whole in the input part */
    unsigned group;               /* the group (tess_layer_group) of its input; 0: it is never computed again */
    size_t own_bytes, work_bytes; /* sizes of its structs of parameters and of tensors */
    const tess_tensor_row *tensors;
    int n_tensors;
    const size_t
        *maps; /* (n_maps) offsets in its parameters of linear maps, which ranks may share and adapters change */
    int n_maps;
    /* Returns linear map *i of a part whose number of maps is its own, or NULL: there are fewer, whose number it takes
     * off *i. NULL: `maps` lists them */
    const tess_linear *(*map)(const void *own, int *i);
    /* Writes the part's own sizes; those of all parts are already there. NULL: it has none. */
    void (*sizes)(const tess_model *model, const void *own, int64_t sizes[TESS_N_DIMS]);
    /* Sets the pointers to tensors that are columns of others, after memory is planned. NULL: there are none. */
    void (*place_views)(const void *own, size_t element, void *tensors);
    /* Enlarges work space. NULL: the part needs none; one with linear maps needs some. */
    void (*room)(const void *own, tess_part_room *room);
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
    double (*flops)(const void *own, int64_t seq_len);
};

/* The pointer of a row in a part's struct of tensors. */
static inline void *tess_tensor_get(const void *tensors, size_t at)
{
    void *tensor;
    memcpy(&tensor, (const char *)tensors + at, sizeof(tensor));
    return tensor;
}

static inline void tess_tensor_set(void *tensors, size_t at, void *tensor)
{
    memcpy((char *)tensors + at, &tensor, sizeof(tensor));
}

#endif
