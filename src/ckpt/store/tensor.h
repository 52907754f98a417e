/* A tensor of a training run on one rank, and its name in a checkpoint. */
#ifndef TESS_CKPT_STORE_TENSOR_H
#define TESS_CKPT_STORE_TENSOR_H

#include "tessera/optim.h"

enum { TESS_STORE_NAME = 1024 };

typedef struct tess_ckpt_tensor {
    const char *name;  /* name of the parameter */
    const char *state; /* state of the optimizer, such as "exp_avg"; static. NULL: the parameter's weights */
    tess_dtype dtype;  /* type of `data`; TESS_F32 (0) */
    tess_dtype stored; /* `dtype`; of float32 also TESS_BF16: rounded on the way */
    tess_shape shape;  /* global */
    tess_box box;      /* the box that this rank holds, of tess_shape_atleast_1d(shape) */
    tess_box primary;  /* the part of it that this rank writes: each element is primary on one rank */
    void *data;        /* the elements of `box`, row-major */
} tess_ckpt_tensor;

/* Dimensions and sizes of its boxes. */
int tess_ckpt_dims(const tess_ckpt_tensor *tensor);
int64_t tess_ckpt_count(const tess_ckpt_tensor *tensor, const tess_box *box);

/* Copies `count` elements, from number `first` on, of those that this rank writes. A caller that needs no
 * copy gets them from tess_ckpt_primary_run: NULL if they do not lie in one run of `data`. */
void tess_ckpt_primary_copy(const tess_ckpt_tensor *tensor, int64_t first, int64_t count, void *to);
const void *tess_ckpt_primary_run(const tess_ckpt_tensor *tensor);

/* The name of a parameter's tensor: "model.layers.0.w", with a state "optimizer.layers.0.w.exp_avg". */
void tess_store_tensor_name(const char *state, const char *parameter, char name[TESS_STORE_NAME]);

/* A state of the optimizer, sharded as its weights are. */
tess_ckpt_tensor tess_ckpt_state_tensor(const tess_ckpt_tensor *weights, const tess_optimizer_state *state);

/* The dtype in a manifest: "F32"; NULL: never stored. */
const char *tess_store_dtype_text(tess_dtype dtype);

#endif
