/* The roles of a unit's parameters, the same for all layers of a model. The family builds them (models/), and the
 * executor reads them. */
#ifndef TESS_NN_BLOCK_PARAMS_H
#define TESS_NN_BLOCK_PARAMS_H

#include "device/kernels.h"
#include "nn/model.h"

/* A linear map as a view on one stored matrix: GPT-2's fused c_attn is three of these. */
typedef struct tess_linear {
    int weight, bias; /* index in the unit; -1: none */
    int64_t n_in, n_out;
    int64_t ld;         /* elements between stored rows */
    int64_t offset;     /* first element of the view in the weight and in the bias (a view of columns) */
    bool in_out;        /* stored (in, out) as Conv1D; else (out, in) */
    int64_t out_stride; /* elements between rows of y and dy; 0: n_out */
} tess_linear;

typedef struct tess_norm {
    int weight, bias; /* index in the unit; weight -1: no norm */
} tess_norm;

typedef struct tess_block_params {
    bool layer_norm; /* LayerNorm with bias; else RMSNorm */
    bool rope;       /* else learned positions are added to the embedding */
    tess_activation activation;
    int table, positions; /* of the embedding unit; positions -1: none */
    tess_norm input_norm, mlp_norm, final_norm;
    tess_norm q_norm, k_norm; /* over a head's channels */
    tess_linear q, k, v, o;
    tess_linear qkv;            /* q, k and v where they are stored as one matrix; weight -1: they are not */
    tess_linear gate, up, down; /* gate.weight -1: down(act(up)); else down(act(gate) * up) */
    tess_linear head;           /* of the head unit, or of the embedding unit when tied */
} tess_block_params;

struct tess_model {
    tess_mem *mem;
    tess_model_config config;
    tess_block_params block;
    tess_param *params;
    int n_params, n_units;
    int *unit_first;        /* (n_units + 1) */
    char (*unit_names)[32]; /* (n_units) */
};

/* Appends a parameter to `unit` (units in order); a matrix (rows, columns), or a vector when columns is 0. The format
 * makes the name. Returns its index in the unit. */
int tess_model_add_param(tess_model *model, int unit, tess_init init, double std, int64_t rows, int64_t columns,
                         const char *name, ...) __attribute__((format(printf, 7, 8)));

/* The most parameters of a layer in any family. */
enum { TESS_LAYER_MAX_PARAMS = 20 };

#endif
