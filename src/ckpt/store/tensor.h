/* A tensor of a training run on one rank, and its name in a checkpoint. */
#ifndef TESS_CKPT_STORE_TENSOR_H
#define TESS_CKPT_STORE_TENSOR_H

#include "tessera/optim.h"

enum { TESS_STORE_NAME = 1024 };

typedef struct tess_ckpt_tensor {
    const char *name;  /* name of the parameter */
    const char *state; /* name of the optimizer state, such as "exp_avg"; static. NULL: the parameter's weights */
    tess_dtype dtype;  /* type of the elements of `data`; the default TESS_F32 is 0 */
    /* Type in the checkpoint: `dtype`, or TESS_BF16 if `dtype` is TESS_F32 (the values are rounded) */
    tess_dtype stored;
    tess_shape shape; /* shape of the whole tensor */
    tess_box box;     /* the box that this rank holds, of tess_shape_atleast_1d(shape) */
    tess_box primary; /* the part of `box` that this rank writes: each element is primary on one rank */
    void *data;       /* the elements of `box`, row-major */
} tess_ckpt_tensor;

/* Number of dimensions of the tensor's boxes, and number of elements of a box. */
int tess_ckpt_dims(const tess_ckpt_tensor *tensor);
int64_t tess_ckpt_count(const tess_ckpt_tensor *tensor, const tess_box *box);

/* tess_ckpt_primary_copy: copies `count` elements of those that this rank writes, starting at number `first`
 * tess_ckpt_primary_run: returns these elements without a copy; NULL: they are not contiguous in `data` */
void tess_ckpt_primary_copy(const tess_ckpt_tensor *tensor, int64_t first, int64_t count, void *to);
const void *tess_ckpt_primary_run(const tess_ckpt_tensor *tensor);

/* Formats the name of a parameter's tensor: "model.layers.0.w" or, with a state, "optimizer.layers.0.w.exp_avg". */
void tess_store_tensor_name(const char *state, const char *parameter, char name[TESS_STORE_NAME]);

/* Describes an optimizer state, which is sharded like its weights. */
tess_ckpt_tensor tess_ckpt_state_tensor(const tess_ckpt_tensor *weights, const tess_optimizer_state *state);

/* Returns the text of a dtype in a manifest: "F32"; NULL: this dtype is never stored. */
const char *tess_store_dtype_text(tess_dtype dtype);

#endif
