/* A model is a list of blocks: the embedding, the layers, the head. Each has parameters of its own and says what part
 * each of them plays, so that layers may differ. The family builds the list (models/), the executor walks it. */
#ifndef TESS_NN_BLOCK_H
#define TESS_NN_BLOCK_H

#include "device/kernels.h"
#include "nn/model.h"

/* The adapter of a linear map (lora.h). */
typedef struct tess_low_rank {
    int a, b;     /* index in the block: (rank, in), (out, rank) */
    int64_t rank; /* 0: no adapter */
    float scale;
} tess_low_rank;

/* A linear map as a view on one stored matrix: GPT-2's fused c_attn is three of these. */
typedef struct tess_linear {
    int weight, bias;    /* index in the block; -1: none */
    int64_t n_in, n_out; /* sizes of this rank */
    tess_cut in, out;    /* cuts over all ranks that share the layer */
    bool stored_whole;   /* each of them stores all of it, whatever is cut */
    int64_t ld;          /* elements between stored rows */
    int64_t offset;      /* first element of the view in the weight and in the bias (a view of columns) */
    bool in_out;         /* stored (in, out) as Conv1D; else (out, in) */
    int64_t out_stride;  /* elements between rows of y and dy; 0: n_out */
    /* Leaves of sums over all its inputs (forward), and over all its outputs (the input's gradient); see tess_gemm. */
    int64_t in_leaf, out_leaf;
    tess_low_rank adapter;
} tess_linear;

typedef struct tess_norm {
    int weight, bias; /* index in the block; weight -1: no norm */
} tess_norm;

typedef enum tess_block_kind { TESS_BLOCK_EMBEDDING, TESS_BLOCK_LAYER, TESS_BLOCK_HEAD } tess_block_kind;

/* A block is a unit of hooks (model.h). Sizes and parts are those of its kind; the others are 0. */
typedef struct tess_block {
    tess_block_kind kind;
    char name[32];        /* "model.layers.3" */
    int first, n_params;  /* its parameters in the model's table */
    bool layer_norm;      /* LayerNorm with bias; else RMSNorm */
    int table, positions; /* embedding; positions -1: none */
    tess_cut channels;    /* embedding: columns of both tables over the ranks that share them */
    int64_t width;        /* number of this rank's columns */
    bool tied;            /* embedding: the head multiplies by its table */
    tess_norm final_norm; /* head */
    tess_linear head;     /* map of this block, or of the embedding when tied */
    tess_linear
        value; /* head: map to the value of a row; equals `head` if the model is no language model; weight -1: none */
    /* A layer's. */
    int64_t layer;                                             /* its number in the whole model */
    int64_t n_heads, n_kv_heads, head_size, intermediate_size; /* sizes of this rank */
    int64_t window; /* keys that a query sees, its own the last; 0: all before it */
    bool rope;      /* q and k are rotated */
    tess_activation activation;
    tess_norm input_norm, mlp_norm;
    tess_norm q_norm, k_norm; /* over a head's channels */
    tess_linear q, k, v, o;
    tess_linear qkv;            /* q, k and v where they are stored as one matrix; weight -1: they are not */
    tess_linear gate, up, down; /* gate.weight -1: down(act(up)); else down(act(gate) * up) */
} tess_block;

/* Whether every linear map of a layer that reads this parameter reads whole rows of it. */
bool tess_block_owns_rows(const tess_block *block, int weight);

/* Query heads of one key head may be on several ranks, because more of them share the layer than it has key heads. */
static inline bool tess_block_shares_key_heads(const tess_block *block)
{
    return block->q.out.unit == block->head_size && block->q.out.size > block->k.out.size;
}

/* Norms of q and k. */
static inline bool tess_block_norms_heads(const tess_block *block)
{
    return block->q_norm.weight >= 0;
}

struct tess_model {
    tess_mem *mem;
    tess_model_config config; /* configuration of the whole model */
    tess_model_part part;
    tess_block *blocks; /* (n_units) */
    int n_units;
    tess_param *params; /* (n_params) */
    int n_params, room; /* room: entries of the table */
    tess_status built;  /* the first failure of a builder */
};

/* Appends a parameter to `unit` (units in order); a matrix (rows, columns), or a vector when columns is 0. The format
 * makes the name. Returns its index in the unit; model->built reports a table that cannot grow. */
int tess_model_add_param(tess_model *model, int unit, tess_init init, double std, int64_t rows, int64_t columns,
                         const char *name, ...) __attribute__((format(printf, 7, 8)));

#endif
