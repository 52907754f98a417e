#include "engine/batch/context_pieces.h"

#include <string.h>

#include "base/mem/make_room.h"
#include "engine/batch/context_loss.h"
#include "engine/loss_scale.h"

tess_context tess_context_of(const tess_config *c)
{
    return (tess_context){.points = {.degree = (int)c->parallelism.context_parallel_degree},
                          .n_leaves = (int)c->training.context_leaves,
                          .by_heads = c->parallelism.context_parallel_method == TESS_CONTEXT_ULYSSES,
                          .rings = c->parallelism.context_parallel_method == TESS_CONTEXT_RING,
                          .folded = c->parallelism.context_parallel_load_balancer == TESS_BALANCER_ZIGZAG};
}

/* Tokens of a micro-batch are a multiple of it. */
static int64_t unit_of(const tess_context *context)
{
    return context->n_leaves > 1 ? (int64_t)TESS_LEAF_UNIT * context->n_leaves : 1;
}

/* Tokens of all ranks, with those that fill up leaves. */
static int64_t fill_up(const tess_context *context, int64_t n_tokens)
{
    const int64_t unit = unit_of(context);
    return (n_tokens + unit - 1) / unit * unit;
}

int64_t tess_context_tokens(const tess_context *context, int64_t n_tokens)
{
    return fill_up(context, n_tokens) / context->points.degree;
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
    const int64_t piece = fill_up(context, n_tokens) / context->n_leaves;
    return tess_context_piece(context, context->points.rank * own + (int)(row / piece)) * piece + row % piece;
}

/* Returns the arrays of a set: three of a number for each own token, then the sequences' bounds. */
static tess_status find_set(tess_pieces *p, size_t set, int32_t **numbers)
{
    const int64_t whole = p->max_tokens * p->context.points.degree;
    for (; p->n_sets <= set; p->n_sets++) {
        TESS_TRY(tess_mem_make_room(p->mem, TESS_POOL_MISC, p->n_sets, sizeof(*p->sets), "pieces", &p->room, &p->sets));
        p->sets[p->n_sets] = (tess_piece_set){0};
        TESS_TRY(tess_mem_alloc_array(p->mem, TESS_POOL_MISC, (size_t)(3 * p->max_tokens + whole + 1), sizeof(int32_t),
                                      "pieces", (void **)&p->sets[p->n_sets].numbers));
    }
    *numbers = p->sets[set].numbers;
    return TESS_OK;
}

/* Wraps a loss that counts the rows of the whole micro-batch. */
static tess_status take_loss(tess_pieces *p, size_t set, int64_t n_tokens, tess_batch *batch)
{
    tess_context_loss **loss = &p->sets[set].loss;
    const size_t most = (size_t)(p->max_tokens * p->context.points.degree);
    if (batch->loss == NULL || tess_loss_is_text(batch->loss))
        return TESS_OK;
    if (*loss == NULL) {
        TESS_TRY(TESS_NEW(p->mem, 1, "loss of pieces", loss));
        TESS_TRY(TESS_PART(*loss, 5 * most, "loss of pieces", &(*loss)->room));
    }
    tess_context_loss_open(p, batch->loss, n_tokens, *loss);
    batch->loss = &(*loss)->outer;
    return TESS_OK;
}

/* Copies this rank's pieces of x (n_tokens), and `rest` for tokens after them. */
static const int32_t *take_pieces(const tess_pieces *p, const int32_t *x, int64_t n_tokens, int32_t rest, int32_t *to)
{
    const tess_context *context = &p->context;
    const int own = context->n_leaves / context->points.degree, first = context->points.rank * own;
    const int64_t piece = fill_up(context, n_tokens) / context->n_leaves;
    for (int leaf = 0; leaf < own && x != NULL; leaf++) {
        const int64_t begin = tess_context_piece(context, first + leaf) * piece;
        for (int64_t i = 0; i < piece; i++)
            to[leaf * piece + i] = begin + i < n_tokens ? x[begin + i] : rest;
    }
    return x != NULL ? to : NULL;
}

tess_status tess_pieces_take(tess_pieces *p, size_t set, tess_batch *batch)
{
    int32_t *numbers;
    const int64_t n = batch->n_tokens, own = tess_context_tokens(&p->context, n), rest = fill_up(&p->context, n) - n;
    if (p->context.n_leaves <= 1)
        return TESS_OK;
    TESS_CHECK(own <= p->max_tokens, TESS_E_INVALID, "a micro-batch of %lld tokens; a rank has room for %lld of them",
               (long long)n, (long long)p->max_tokens);
    TESS_TRY(find_set(p, set, &numbers));
    int32_t *pos = numbers + p->max_tokens, *targets = pos + p->max_tokens, *bounds = targets + p->max_tokens;
    memcpy(bounds, batch->cu_seqlens, (size_t)(batch->n_seqs + 1) * sizeof(*bounds));
    for (int64_t i = 0; i < rest; i++)
        bounds[batch->n_seqs + 1 + i] = (int32_t)(n + i + 1);
    p->sets[set].n_tokens = batch->n_tokens = own;
    batch->n_seqs += rest;
    batch->ids = take_pieces(p, batch->ids, n, 0, numbers);
    batch->pos = take_pieces(p, batch->pos, n, 0, pos);
    batch->targets = take_pieces(p, batch->targets, n, -1, targets);
    batch->cu_seqlens = bounds;
    return take_loss(p, set, n, batch);
}

void tess_context_sort(const tess_context *context, int64_t n_tokens, const float *by_leaf, float *by_token)
{
    const int64_t piece = fill_up(context, n_tokens) / context->n_leaves;
    for (int leaf = 0; leaf < context->n_leaves; leaf++) {
        const int64_t begin = tess_context_piece(context, leaf) * piece, left = n_tokens - begin;
        const int64_t n = left < piece ? left : piece;
        if (n > 0)
            memcpy(by_token + begin, by_leaf + leaf * piece, (size_t)n * sizeof(*by_token));
    }
}

int64_t tess_pieces_token(const tess_pieces *p, size_t set, int64_t row)
{
    const tess_context *context = &p->context;
    if (context->n_leaves <= 1 || set >= p->n_sets)
        return row;
    return tess_context_token(context, p->sets[set].n_tokens * context->points.degree, row);
}

void tess_pieces_free(tess_pieces *p)
{
    for (size_t i = 0; i < p->n_sets; i++) {
        tess_mem_free(p->mem, p->sets[i].numbers);
        tess_mem_drop(&p->sets[i].loss);
    }
    tess_mem_free(p->mem, p->sets);
}
