/* A tensor of a training run, as a rank holds it, and its name in a checkpoint. */
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
    int64_t row_begin, n_rows;           /* rows of dimension 0 that `data` holds on this rank */
    int64_t primary_begin, primary_rows; /* of those, the ones that this rank writes: each row is primary on one rank */
    float *data;                         /* (n_rows, ...) */
} tess_ckpt_tensor;

/* Its rows that this rank writes. */
const float *tess_ckpt_primary_data(const tess_ckpt_tensor *tensor);

/* "model.layers.0.w", "optimizer.layers.0.w.exp_avg": of a parameter. */
void tess_store_tensor_name(tess_ckpt_kind kind, const char *parameter, char name[TESS_STORE_NAME]);

/* As a manifest has it: "F32"; NULL: not one that is stored. */
const char *tess_store_dtype_text(tess_dtype dtype);

#endif
