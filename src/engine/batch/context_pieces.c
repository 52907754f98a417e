#include "engine/batch/context_pieces.h"

#include <string.h>

#include "base/mem/make_room.h"
#include "engine/batch/context_loss.h"
#include "engine/loss_scale.h"

/* The arrays of a set are three of a number for each own token, then the sequences' bounds. */
tess_status tess_pieces_reserve(tess_pieces *p, size_t n_sets)
{
    const int64_t whole = p->max_tokens * p->context.points.degree;
    for (; p->context.n_leaves > 1 && p->n_sets < n_sets; p->n_sets++) {
        TESS_TRY(tess_mem_make_room(p->mem, TESS_POOL_MISC, p->n_sets, sizeof(*p->sets), "pieces", &p->room, &p->sets));
        p->sets[p->n_sets] = (tess_piece_set){0};
        TESS_TRY(tess_mem_alloc_array(p->mem, TESS_POOL_ACTIVATIONS, (size_t)(3 * p->max_tokens + whole + 1),
                                      sizeof(int32_t), "pieces", (void **)&p->sets[p->n_sets].numbers));
    }
    return TESS_OK;
}

/* Wraps a loss that counts the rows of the whole micro-batch. */
static tess_status take_loss(tess_pieces *p, size_t set, int64_t n_tokens, tess_batch *batch)
{
    tess_context_loss **loss = &p->sets[set].loss;
    const size_t most = (size_t)(p->max_tokens * p->context.points.degree);
    if (batch->loss == NULL || tess_loss_is_text(batch->loss))
        return TESS_OK;
    if (*loss == NULL)
        TESS_TRY(TESS_NEW(p->mem, 1, "loss of pieces", loss));
    if ((batch->loss->whole || batch->loss->grade_values != NULL) && (*loss)->room == NULL)
        TESS_TRY(tess_scope_alloc(tess_scope_of(*loss), TESS_POOL_ACTIVATIONS, 5 * most, sizeof(float),
                                  "loss of pieces", (void **)&(*loss)->room));
    (*loss)->context = &p->context;
    (*loss)->team = p->team;
    (*loss)->max_tokens = (int64_t)most;
    tess_context_loss_open(batch->loss, n_tokens, *loss);
    batch->loss = &(*loss)->outer;
    return TESS_OK;
}

/* Copies this rank's pieces of x (n_tokens), and `rest` for tokens after them. */
static const int32_t *take_pieces(const tess_pieces *p, const int32_t *x, int64_t n_tokens, int32_t rest, int32_t *to)
{
    const tess_context *context = &p->context;
    const int own = context->n_leaves / context->points.degree, first = context->points.rank * own;
    const int64_t piece = tess_context_filled(context, n_tokens) / context->n_leaves;
    for (int leaf = 0; leaf < own && x != NULL; leaf++) {
        const int64_t begin = tess_context_piece(context, first + leaf) * piece;
        for (int64_t i = 0; i < piece; i++)
            to[leaf * piece + i] = begin + i < n_tokens ? x[begin + i] : rest;
    }
    return x != NULL ? to : NULL;
}

tess_status tess_pieces_take(tess_pieces *p, size_t set, tess_batch *batch)
{
    const int64_t n = batch->n_tokens, own = tess_context_tokens(&p->context, n),
                  rest = tess_context_filled(&p->context, n) - n;
    if (p->context.n_leaves <= 1)
        return TESS_OK;
    TESS_CHECK(own <= p->max_tokens, TESS_E_INVALID, "a micro-batch of %lld tokens; a rank has room for %lld of them",
               (long long)n, (long long)p->max_tokens);
    TESS_CHECK(set != SIZE_MAX, TESS_E_INVALID, "pieces: a micro-batch that the schedule does not have, of %lld",
               (long long)p->n_micros);
    TESS_TRY(tess_pieces_reserve(p, set + 1));
    int32_t *numbers = p->sets[set].numbers, *pos = numbers + p->max_tokens, *targets = pos + p->max_tokens,
            *bounds = targets + p->max_tokens;
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

int64_t tess_pieces_token(const tess_pieces *p, size_t set, int64_t row)
{
    const tess_context *context = &p->context;
    if (context->n_leaves <= 1 || set >= p->n_sets || row >= p->sets[set].n_tokens)
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
