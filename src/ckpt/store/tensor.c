#include "ckpt/store/tensor.h"

#include <stdio.h>
#include <string.h>

#include "base/core/flat.h"
#include "ckpt/store/store_impl.h"

void tess_store_tensor_name(const char *state, const char *parameter, char name[TESS_STORE_NAME])
{
    if (state == NULL)
        snprintf(name, TESS_STORE_NAME, "model.%s", parameter);
    else
        snprintf(name, TESS_STORE_NAME, "optimizer.%s.%s", parameter, state);
}

/* Converts a box of elements into a box of blocks of columns. */
static void count_blocks(tess_box *box, int64_t block)
{
    box->begin[1] /= block;
    box->size[1] = (box->size[1] + block - 1) / block;
}

tess_ckpt_tensor tess_ckpt_state_tensor(const tess_ckpt_tensor *weights, const tess_optimizer_state *state)
{
    tess_ckpt_tensor t = *weights;
    t.state = state->name;
    t.dtype = t.stored = state->dtype;
    t.data = state->data;
    if (state->block > 1) {
        t.shape.dim[1] = (t.shape.dim[1] + state->block - 1) / state->block;
        count_blocks(&t.box, state->block);
        count_blocks(&t.primary, state->block);
    }
    return t;
}

const char *tess_store_dtype_text(tess_dtype dtype)
{
    static const char *const texts[TESS_DTYPE_COUNT] = {"F32", "BF16", "F16", "I32", "I64", "U8"};
    return dtype < TESS_DTYPE_COUNT ? texts[dtype] : NULL;
}

int tess_ckpt_dims(const tess_ckpt_tensor *tensor)
{
    return tensor->shape.n_dims > 0 ? tensor->shape.n_dims : 1;
}

int64_t tess_ckpt_count(const tess_ckpt_tensor *tensor, const tess_box *box)
{
    return tess_box_count(tess_ckpt_dims(tensor), box);
}

void tess_ckpt_primary_copy(const tess_ckpt_tensor *t, int64_t first, int64_t count, void *to)
{
    tess_flat_copy(tess_ckpt_dims(t), tess_dtype_size(t->dtype), &t->box, t->data, &t->primary, first, count, to);
}

const void *tess_ckpt_primary_run(const tess_ckpt_tensor *t)
{
    int n_dims = tess_ckpt_dims(t);
    if (tess_ckpt_count(t, &t->primary) == 0)
        return t->data;
    if (!tess_flat_is_run(n_dims, t->box.size, t->primary.size))
        return NULL;
    return (const char *)t->data + (size_t)tess_flat_offset(n_dims, &t->box, &t->primary) * tess_dtype_size(t->dtype);
}

tess_status tess_ckpt_check_held(const tess_ckpt_tensor *t, int rank)
{
    const tess_shape shape = tess_shape_atleast_1d(&t->shape);
    const tess_box whole = tess_box_whole(&shape);
    char text[96], held[300];
    TESS_CHECK(tess_box_contains(shape.n_dims, &whole, &t->box), TESS_E_INVALID,
               "checkpoint: tensor '%.1000s' of shape %s: rank %d holds %s, which is not inside", t->name,
               tess_shape_format(&t->shape, text, sizeof(text)), rank,
               tess_box_format(shape.n_dims, &t->box, held, sizeof(held)));
    return TESS_OK;
}

tess_status tess_ckpt_check_tensors(const tess_ckpt_tensor *tensors, int n_tensors, int rank)
{
    TESS_CHECK(n_tensors >= 0, TESS_E_INVALID, "%d tensors in a checkpoint", n_tensors);
    for (int i = 0; i < n_tensors; i++) {
        const tess_ckpt_tensor *t = &tensors[i];
        int n_dims = tess_ckpt_dims(t);
        char held[300], own[300];
        TESS_TRY(tess_ckpt_check_held(t, rank));
        TESS_CHECK(tess_ckpt_count(t, &t->primary) == 0 || tess_box_contains(n_dims, &t->box, &t->primary),
                   TESS_E_INVALID,
                   "checkpoint: tensor '%.1000s': rank %d holds %s and writes %s, which is not inside of that", t->name,
                   rank, tess_box_format(n_dims, &t->box, held, sizeof(held)),
                   tess_box_format(n_dims, &t->primary, own, sizeof(own)));
        TESS_CHECK(strlen(t->name) < TESS_STORE_NAME - 32, TESS_E_INVALID,
                   "checkpoint: the name '%.100s...' is too long", t->name);
    }
    return TESS_OK;
}
