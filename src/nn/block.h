/* A model is a list of blocks: the embedding, the layers, the head. Each block has its own parameters and says what
 * role each of them plays, so layers may differ. The family builds the list (models/); the executor walks it. */
#ifndef TESS_NN_BLOCK_H
#define TESS_NN_BLOCK_H

#include "base/text/name_index.h"
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
    bool joined;         /* the views of the matrix are computed as one product */
    int64_t ld;          /* elements between stored rows */
    int64_t offset;      /* first element of the view in the weight: that of its first output */
    int64_t first;       /* the first output's place in the bias */
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

/* A part in its place in a block. */
typedef struct tess_placed_part {
    const tess_part *part;
    void *own;     /* the part's parameters: a struct that the part defines */
    size_t work;   /* offset of its struct of tensors among those of the model */
    size_t host;   /* offset of tess_tensors.host among the model's; set by builders of parts that need it */
    bool parallel; /* it reads the stream that the part before it reads, and adds to that part's branch */
} tess_placed_part;

/* A block is one unit of the hooks (model.h). */
typedef struct tess_block {
    tess_placed_part *parts; /* (n_parts) in forward order */
    int n_parts;
    char name[TESS_UNIT_NAME_SIZE]; /* name, such as "model.layers.3" */
    int64_t layer;                  /* the layer's number in the whole model; -1: the block is no layer */
    int first, n_params;            /* range of the block's parameters in the model's table */
    int64_t hidden_size;            /* C, the channels of the stream that the block reads or leaves */
    bool layer_norm;                /* true: LayerNorm; false: RMSNorm */
    bool one_plus;                  /* norms multiply by 1 + w, also those of q and k */
    tess_activation activation;     /* activation of products (tess_linear_act_forward) */
    int table;                      /* index of the table that a tied head shares */
    int64_t width;                  /* number of this rank's columns of the table */
} tess_block;

/* Appends a part to a unit. Returns the part's struct of parameters, whose memory is zero and belongs to the model, or
 * NULL: model->built holds the error. */
void *tess_model_add_part(tess_model *model, int unit, const tess_part *part);
/* The same for a part whose struct of parameters ends with an array. */
void *tess_model_add_sized_part(tess_model *model, int unit, const tess_part *part, size_t own_bytes);
/* Returns the parameters of the block's first part of this kind, or NULL. */
const void *tess_block_find(const tess_block *block, const tess_part *part);

/* Returns linear map i of the block's parts, or NULL: there are fewer. Absent maps have no sizes. */
const tess_linear *tess_block_map(const tess_block *block, int i);

/* The channels of the widest stream. */
int64_t tess_model_width(const tess_model *model);

/* Whether every linear map of a layer that reads this parameter reads whole rows of it. */
bool tess_block_owns_rows(const tess_block *block, int weight);

struct tess_model {
    tess_mem *mem;
    tess_model_config config; /* configuration of the whole model */
    tess_model_part part;
    tess_block *blocks; /* (n_units) all blocks in forward order */
    int n_units;
    tess_param *params;    /* (n_params) all parameters, block by block */
    int n_params, room;    /* room: allocated entries of params */
    tess_name_index names; /* names of params, filled once the model is complete */
    int n_parts;           /* number of parts of all blocks */
    size_t work_bytes;     /* size of their structs of tensors */
    size_t host_bytes;     /* size of what they keep in the host's memory */
    int table_unit;        /* unit with the table that a tied head shares; -1: there is none */
    tess_status built;     /* the first error of a builder, or TESS_OK */
};

/* Makes tess_model_find_param ready: the model has all its parameters. */
tess_status tess_model_index_names(tess_model *model);

/* Appends a parameter to `unit`; units must come in ascending order. It is a matrix (rows, columns), or a vector if
 * columns is 0. The format makes the name. Returns the parameter's index in the unit. If the table cannot grow,
 * model->built holds the error. */
int tess_model_add_param(tess_model *model, int unit, tess_init init, double std, int64_t rows, int64_t columns,
                         const char *name, ...) __attribute__((format(printf, 7, 8)));

#endif
