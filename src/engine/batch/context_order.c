#include "engine/batch/context_order.h"

#include <string.h>

#include "device/kernel_args.h"

/* Tensor cores take more keys at a time. Every rank finds the same, also one that only plans. */
static int64_t ring_part(const tess_config *c)
{
    const bool on_tensor_cores = tess_config_is_on_gpu(c) && c->training.mixed_precision_param == TESS_PRECISION_BF16;
    return on_tensor_cores ? TESS_ATTENTION_CHUNK : TESS_ATTENTION_PART;
}

tess_context tess_context_of(const tess_config *c)
{
    return (tess_context){.points = {.degree = (int)c->parallelism.context_parallel_degree},
                          .n_leaves = (int)c->training.context_leaves,
                          .by_heads = c->parallelism.context_parallel_method == TESS_CONTEXT_ULYSSES,
                          .rings = c->parallelism.context_parallel_method == TESS_CONTEXT_RING,
                          .ring_part = ring_part(c),
                          .row_tokens = (int32_t)c->training.seq_len,
                          .folded = c->parallelism.context_parallel_load_balancer == TESS_BALANCER_ZIGZAG};
}

/* Tokens of a micro-batch are a multiple of it. */
static int64_t unit_of(const tess_context *context)
{
    return context->n_leaves > 1 ? (int64_t)TESS_LEAF_UNIT * context->n_leaves : 1;
}

int64_t tess_context_filled(const tess_context *context, int64_t n_tokens)
{
    const int64_t unit = unit_of(context);
    return (n_tokens + unit - 1) / unit * unit;
}

int64_t tess_context_tokens(const tess_context *context, int64_t n_tokens)
{
    return tess_context_filled(context, n_tokens) / context->points.degree;
}

int64_t tess_context_length_unit(const tess_context *context, int64_t rows)
{
    int64_t unit = unit_of(context); /* a power of two */
    for (; rows % 2 == 0 && unit > 1; rows /= 2)
        unit /= 2;
    return unit;
}

int64_t tess_context_token(const tess_context *context, int64_t n_tokens, int64_t row)
{
    const int own = context->n_leaves / context->points.degree;
    const int64_t piece = tess_context_filled(context, n_tokens) / context->n_leaves;
    return tess_context_piece(context, context->points.rank * own + (int)(row / piece)) * piece + row % piece;
}

void tess_context_sort(const tess_context *context, int64_t n_tokens, const float *by_leaf, float *by_token)
{
    const int64_t piece = tess_context_filled(context, n_tokens) / context->n_leaves;
    for (int leaf = 0; leaf < context->n_leaves; leaf++) {
        const int64_t begin = tess_context_piece(context, leaf) * piece, left = n_tokens - begin;
        const int64_t n = left < piece ? left : piece;
        if (n > 0)
            memcpy(by_token + begin, by_leaf + leaf * piece, (size_t)n * sizeof(*by_token));
    }
}
