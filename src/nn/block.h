/* A model is a list of blocks: the embedding, the layers, the head. Each block has its own parameters and says what
 * role each of them plays, so layers may differ. The family builds the list (models/); the executor walks it. */
#ifndef TESS_NN_BLOCK_H
#define TESS_NN_BLOCK_H

#include "device/kernels.h"
#include "nn/model.h"

/* The low-rank adapter of a linear map (lora.h). */
typedef struct tess_low_rank {
    int a, b;     /* parameters' indices in the block: A (rank, in), B (out, rank) */
    int64_t rank; /* rank of the adapter; 0: no adapter */
    float scale;
} tess_low_rank;

/* A linear map is a view of one stored matrix: GPT-2's fused c_attn has three of these views. */
typedef struct tess_linear {
    int weight, bias;    /* parameters' indices in the block; -1: none */
    int64_t n_in, n_out; /* this rank's part of the sizes */
    tess_cut in, out;    /* how the ranks that share the layer cut inputs and outputs */
    bool stored_whole;   /* every rank stores the whole matrix, even if inputs or outputs are cut */
    int64_t ld;          /* elements between stored rows */
    int64_t offset;      /* first element of the view in the weight and in the bias (a view of columns) */
    bool in_out;         /* true: stored (in, out), as in Conv1D; false: (out, in) */
    int64_t out_stride;  /* elements between rows of y and dy; 0: n_out */
    /* Lengths of the leaves in the tree of sums over all inputs (forward) and over all outputs (the input's
     * gradient); see tess_gemm. */
    int64_t in_leaf, out_leaf;
    tess_low_rank adapter;
} tess_linear;

typedef struct tess_norm {
    int weight, bias; /* parameters' indices in the block; weight -1: no norm */
} tess_norm;

typedef struct tess_part tess_part; /* nn/layers/block_part.h */
enum { TESS_MAX_PARTS = 4 };

/* A block is one unit of the hooks (model.h). Members that do not belong to the block's parts are 0. */
typedef struct tess_block {
    const tess_part *parts[TESS_MAX_PARTS]; /* (n_parts) in forward order */
    int n_parts;
    char name[TESS_UNIT_NAME_SIZE]; /* name, such as "model.layers.3" */
    int64_t layer;                  /* the layer's number in the whole model; -1: the block is no layer */
    int first, n_params;            /* range of the block's parameters in the model's table */
    int64_t hidden_size;            /* C, the channels of the stream that the block reads or leaves */
    bool layer_norm;                /* true: LayerNorm with bias; false: RMSNorm */
    int table, positions;           /* embedding: indices of the tables; positions -1: none */
    tess_cut channels;              /* embedding: how the ranks that share both tables cut their columns */
    int64_t width;                  /* number of this rank's columns */
    bool tied;                      /* embedding: the head multiplies by this table, too */
    tess_norm final_norm;           /* head: the norm before the map to logits */
    tess_linear head;               /* head: the map to logits, of this block or, if tied, of the embedding */
    /* head: the map to the value of a row; equals `head` if the model is no language model; weight -1: no value head */
    tess_linear value;
    /* Members of a layer. */
    int64_t n_heads, n_kv_heads, head_size, intermediate_size; /* this rank's part of the sizes */
    int64_t window; /* number of keys that a query sees, up to and including its own position; 0: all of them */
    bool rope;      /* whether q and k get rotary positions */
    tess_activation activation;
    tess_norm input_norm, mlp_norm;
    tess_norm q_norm, k_norm; /* norms over the channels of one head */
    tess_linear q, k, v, o;
    tess_linear qkv;            /* q, k and v as one map if one matrix stores them; weight -1: separate matrices */
    tess_linear gate, up, down; /* gate.weight -1: down(act(up)); else down(act(gate) * up) */
} tess_block;

/* Writes pointers to the linear maps of a block's parts to `maps`. Returns their number. Absent maps have no sizes. */
enum { TESS_MAX_MAPS = 16 };
int tess_block_maps(const tess_block *block, const tess_linear *maps[TESS_MAX_MAPS]);

/* The channels of the widest stream. */
int64_t tess_model_width(const tess_model *model);

/* Whether every linear map of a layer that reads this parameter reads whole rows of it. */
bool tess_block_owns_rows(const tess_block *block, int weight);

/* Whether query heads that share a key head may be on different ranks, because more ranks share the layer than it
 * has key heads. */
static inline bool tess_block_shares_key_heads(const tess_block *block)
{
    return block->q.out.unit == block->head_size && block->q.out.size > block->k.out.size;
}

/* Elements of a row of keys in a cache: those of the heads that this rank attends with. */
static inline int64_t tess_block_cached_row(const tess_block *block)
{
    return tess_block_shares_key_heads(block) ? block->k.out.size : block->n_kv_heads * block->head_size;
}

/* Whether the layer has norms of q and k. */
static inline bool tess_block_norms_heads(const tess_block *block)
{
    return block->q_norm.weight >= 0;
}

struct tess_model {
    tess_mem *mem;
    tess_model_config config; /* configuration of the whole model */
    tess_model_part part;
    tess_block *blocks; /* (n_units) all blocks in forward order */
    int n_units;
    tess_param *params; /* (n_params) all parameters, block by block */
    int n_params, room; /* room: allocated entries of params */
    int table_unit;     /* unit with the table that a tied head shares; -1: there is none */
    tess_status built;  /* the first error of a builder, or TESS_OK */
};

/* Appends a parameter to `unit`; units must come in ascending order. It is a matrix (rows, columns), or a vector if
 * columns is 0. The format makes the name. Returns the parameter's index in the unit. If the table cannot grow,
 * model->built holds the error. */
int tess_model_add_param(tess_model *model, int unit, tess_init init, double std, int64_t rows, int64_t columns,
                         const char *name, ...) __attribute__((format(printf, 7, 8)));

#endif
