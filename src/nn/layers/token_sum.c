/* Sums over tokens as a tree of leaves (tess_context in nn/points.h). Each leaf is a sum as the kernels define it, from
 * 0 over the tokens of the leaf. The sums of leaves form a binary counter: level i is empty, or holds the sum of 2^i
 * leaves. A leaf is computed in the level where its sum will be stored, and the last level is the result. Products over
 * tokens form the same tree by themselves (tess_gemm.leaf). */
#include "nn/layers/layers.h"

/* Computes earlier + to in `to`. */
static tess_status add(const tess_layer_call *c, const float *earlier, float *to, int64_t n)
{
    return c->kernels->add(c->stream, &(tess_add_args){.a = earlier, .b = to, .y = to, .n = n, .dtype = TESS_F32});
}

float *tess_leaf_begin(const tess_layer_call *c, const tess_leaf_sum *s, int leaf)
{
    const int level = __builtin_ctz(~(unsigned)leaf);
    if (s->tables != NULL)
        return leaf > 0 ? s->tables + (leaf - 1) * s->n : s->sum;
    return s->sum == NULL || 1 << level == c->n_leaves ? s->sum : s->room + level * s->n;
}

tess_status tess_leaf_end(const tess_layer_call *c, const tess_leaf_sum *s, int leaf)
{
    float *to = tess_leaf_begin(c, s, leaf);
    for (int i = 0; s->sum != NULL && s->tables == NULL && (leaf >> i & 1) != 0; i++)
        TESS_TRY(add(c, s->room + i * s->n, to, s->n));
    return TESS_OK;
}

static const void *rows_at(const tess_layer_call *c, const void *x, int64_t element)
{
    return x != NULL ? tess_at(c, x, element) : NULL;
}

tess_status tess_norm_sums(const tess_layer_call *c, bool layer_norm, const tess_norm_grad_args *args)
{
    const int n = args->dw != NULL || args->db != NULL ? c->n_leaves : 1;
    const int64_t C = args->C, levels = __builtin_ctz((unsigned)c->n_leaves);
    float *const rest = n > 1 ? c->leaf_room + levels * C : NULL;
    const tess_leaf_sum dw = {args->dw, c->leaf_room, NULL, C}, db = {args->db, rest, NULL, C};
    for (int leaf = 0; leaf < n; leaf++) {
        tess_norm_grad_args part = *args;
        part.T = args->T / n;
        const int64_t row = leaf * part.T, at = row * C;
        part.h = rows_at(c, args->h, at);
        part.mean = args->mean != NULL ? args->mean + row : NULL;
        part.rstd = args->rstd + row;
        part.dy = rows_at(c, args->dy, at);
        part.dresidual = rows_at(c, args->dresidual, at);
        part.dx = tess_at(c, args->dx, at);
        if (n > 1) {
            part.dw = tess_leaf_begin(c, &dw, leaf);
            part.db = tess_leaf_begin(c, &db, leaf);
        }
        TESS_TRY(layer_norm ? c->kernels->layernorm_backward(c->stream, &part)
                            : c->kernels->rmsnorm_backward(c->stream, &part));
        if (n > 1) {
            TESS_TRY(tess_leaf_end(c, &dw, leaf));
            TESS_TRY(tess_leaf_end(c, &db, leaf));
        }
    }
    return TESS_OK;
}

tess_status tess_column_sums(const tess_layer_call *c, const tess_column_sum_args *args)
{
    const tess_leaf_sum db = {args->db, c->leaf_room, NULL, args->C};
    tess_column_sum_args part = *args;
    part.T = args->T / c->n_leaves;
    for (int leaf = 0; leaf < c->n_leaves; leaf++) {
        part.dy = tess_at(c, args->dy, leaf * part.T * args->stride);
        part.db = tess_leaf_begin(c, &db, leaf);
        TESS_TRY(c->kernels->column_sum(c->stream, &part));
        TESS_TRY(tess_leaf_end(c, &db, leaf));
    }
    return TESS_OK;
}

/* Adds leaves that are apart, and complete. */
static tess_status join(const tess_layer_call *c, const tess_leaf_sum *s)
{
    for (int apart = 1; apart < c->n_leaves; apart *= 2)
        for (int i = 0; i < c->n_leaves; i += 2 * apart) {
            float *to = tess_leaf_begin(c, s, i), *later = tess_leaf_begin(c, s, i + apart);
            TESS_TRY(c->kernels->add(c->stream,
                                     &(tess_add_args){.a = to, .b = later, .y = to, .n = s->n, .dtype = TESS_F32}));
        }
    return TESS_OK;
}

tess_status tess_embedding_sums(const tess_layer_call *c, const tess_embedding_grad_args *args, float *tables)
{
    const tess_leaf_sum sum = {args->dtable, c->leaf_room, tables, args->rows * args->C};
    tess_embedding_grad_args part = *args;
    part.T = args->T / c->n_leaves;
    for (int leaf = 0; leaf < c->n_leaves; leaf++) {
        part.ids = args->ids + leaf * part.T;
        part.dout = tess_at(c, args->dout, leaf * part.T * args->C);
        part.dtable = tess_leaf_begin(c, &sum, leaf);
        TESS_TRY(c->kernels->embedding_backward(c->stream, &part));
        TESS_TRY(tess_leaf_end(c, &sum, leaf));
    }
    return tables != NULL ? join(c, &sum) : TESS_OK;
}
