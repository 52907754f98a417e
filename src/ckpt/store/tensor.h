/* A tensor of a training run on one rank, and its name in a checkpoint. */
#ifndef TESS_CKPT_STORE_TENSOR_H
#define TESS_CKPT_STORE_TENSOR_H

#include "tessera/types.h"

enum { TESS_STORE_NAME = 1024 };

typedef enum tess_ckpt_kind { TESS_CKPT_WEIGHT, TESS_CKPT_EXP_AVG, TESS_CKPT_EXP_AVG_SQ } tess_ckpt_kind;

typedef struct tess_ckpt_tensor {
    const char *name; /* of the parameter */
    tess_ckpt_kind kind;
    tess_dtype stored;                   /* TESS_F32 (0), or TESS_BF16: rounded on the way */
    tess_shape shape;                    /* global */
    int64_t row_begin, n_rows;           /* rows of dimension 0 in `data` on this rank */
    int64_t primary_begin, primary_rows; /* those of them that this rank writes: each row is primary on one rank */
    float *data;                         /* (n_rows, ...) */
} tess_ckpt_tensor;

/* The first of its rows that this rank writes. */
const float *tess_ckpt_primary_data(const tess_ckpt_tensor *tensor);

/* The name of a parameter's tensor: "model.layers.0.w", "optimizer.layers.0.w.exp_avg". */
void tess_store_tensor_name(tess_ckpt_kind kind, const char *parameter, char name[TESS_STORE_NAME]);

/* The dtype in a manifest: "F32"; NULL: never stored. */
const char *tess_store_dtype_text(tess_dtype dtype);

#endif
