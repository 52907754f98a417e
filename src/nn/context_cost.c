#include "nn/context_cost.h"

#include <stdbool.h>

static int own_leaves(const tess_context *context, int *first)
{
    const int n = context->n_leaves / context->points.degree;
    *first = context->points.rank * n;
    return n;
}

int64_t tess_context_piece_pairs(const tess_context *context)
{
    int64_t pairs = 0;
    int first, n = own_leaves(context, &first);
    for (int leaf = first; leaf < first + n; leaf++)
        pairs += tess_context_piece(context, leaf) + 1;
    return pairs;
}

/* Sum of min(p, most) over p in [from, to), from >= 1. */
static double sum_of(double from, double to, double most)
{
    const double end = to - 1 < most ? to : most + 1 > from ? most + 1 : from; /* p < end are not cut */
    return (end - from) * (from + end - 1) / 2 + (to - end) * most;
}

/* Pairs of the tokens [begin, end). The i-th token of a sequence sees i + 1 keys, and is seen by all from i on. */
static double pairs_of(const tess_context_sizes *s, int64_t begin, int64_t end, bool by_keys)
{
    const int64_t n_real = s->n_tokens - s->n_filled, last = end < n_real ? end : n_real;
    const double most = s->window > 0 ? (double)s->window : (double)s->length;
    double pairs = (double)(end - (begin > last ? begin : last)); /* tokens that fill up see themselves */
    for (int64_t at = begin, next; at < last; at = next) {
        const int64_t first = at / s->length * s->length,
                      stop = first + s->length < n_real ? first + s->length : n_real;
        next = stop < last ? stop : last;
        pairs += by_keys ? sum_of((double)(stop - next + 1), (double)(stop - at + 1), most)
                         : sum_of((double)(at - first + 1), (double)(next - first + 1), most);
    }
    return pairs;
}

double tess_context_token_pairs(const tess_context_sizes *s, const tess_context *context, bool by_keys)
{
    const int64_t rows = s->n_tokens / context->n_leaves;
    double pairs = 0;
    int first, n = own_leaves(context, &first);
    for (int leaf = first; leaf < first + n; leaf++) {
        const int64_t begin = tess_context_piece(context, leaf) * rows;
        pairs += pairs_of(s, begin, begin + rows, by_keys);
    }
    return pairs;
}

/* All pairs, of the rank's heads. Forward has two products (scores, outputs). Backward has five: scores, their
 * gradient, dq, dk and dv. */
static tess_context_cost cost_by_heads(const tess_context_sizes *s, const tess_context *context)
{
    const int64_t H = s->n_heads, G = s->n_kv_heads, D = s->head_size, c = context->points.degree;
    const int64_t own = s->n_tokens / c, others = s->n_tokens - own;
    const tess_context whole = {.points.degree = 1, .n_leaves = 1};
    int64_t begin, g;
    tess_cut_range((tess_cut){G, 1}, (int)c, context->points.rank, &begin, &g);
    const int64_t h = g * (H / G);
    const double flops = 2.0 * (double)(h * D) * tess_context_token_pairs(s, &whole, false);
    tess_context_cost cost = {.forward.flops = 2 * flops, .backward.flops = 5 * flops};
    if (c == 1)
        return cost;
    /* q, k and v arrive for own heads; outputs, or dq, dk and dv, for own tokens. */
    cost.forward.elements = others * (h + 2 * g) * D + own * (H - h) * D;
    cost.forward.floats = own * (H - h);
    cost.forward.exchanges = 5;
    cost.backward.elements = others * (3 * h + 2 * g) * D + own * (H - h + 2 * (G - g)) * D;
    cost.backward.floats = others * h;
    cost.backward.exchanges = 9;
    return cost;
}

/* The rank attends with its own queries, for n key heads and their query heads. Backward computes dq of its own
 * queries, and dk and dv of its own keys. Both need the scores and their gradient, so there are seven products. */
static tess_context_cost cost_by_rows(const tess_context_sizes *s, const tess_context *context, int64_t n)
{
    const int64_t h = n * (s->n_heads / s->n_kv_heads), D = s->head_size;
    const int64_t others = s->n_tokens - s->n_tokens / context->points.degree;
    const double flops = 2.0 * (double)(h * D), queries = flops * tess_context_token_pairs(s, context, false),
                 keys = flops * tess_context_token_pairs(s, context, true);
    tess_context_cost cost = {.forward.flops = 2 * queries, .backward.flops = 3 * queries + 4 * keys};
    cost.forward.elements = others * 2 * n * D;
    cost.forward.exchanges = 2 * n;
    cost.backward.elements = others * (3 * h + 2 * n) * D;
    cost.backward.floats = others * h;
    cost.backward.exchanges = 6 * n;
    return cost;
}

/* Forward by rows, and backward by heads, a key head for each rank at a time; by rows for those that are left. */
static tess_context_cost cost_of_gather(const tess_context_sizes *s, const tess_context *context)
{
    const int64_t G = s->n_kv_heads, c = context->points.degree, rounds = G / c;
    tess_context_sizes round = *s;
    round.n_heads = c * (s->n_heads / G);
    round.n_kv_heads = c;
    const tess_context_pass by_heads = cost_by_heads(&round, context).backward;
    const tess_context_pass left = cost_by_rows(s, context, G % c).backward;
    tess_context_cost cost = cost_by_rows(s, context, G);
    cost.backward = (tess_context_pass){.elements = rounds * by_heads.elements + left.elements,
                                        .floats = rounds * by_heads.floats + left.floats,
                                        .exchanges = rounds * by_heads.exchanges + left.exchanges,
                                        .flops = (double)rounds * by_heads.flops + left.flops};
    return cost;
}

/* Returns the number of other ranks' pieces that this rank's tokens see as keys; if not `seen`, that of the pieces
 * whose tokens see this rank's keys. */
static int64_t pieces_of_others(const tess_context_sizes *s, const tess_context *context, bool seen)
{
    const int64_t rows = s->n_tokens / context->n_leaves, real = s->n_tokens - s->n_filled, L = s->length;
    int64_t n = 0;
    int first, own = own_leaves(context, &first);
    for (int leaf = 0; leaf < context->n_leaves; leaf++) {
        const int64_t other = tess_context_piece(context, leaf);
        bool needed = false;
        for (int i = first; i < first + own && (leaf < first || leaf >= first + own); i++) {
            const int64_t mine = tess_context_piece(context, i), early = seen ? other : mine,
                          late = seen ? mine : other, begin = late * rows, last = (early + 1) * rows - 1;
            /* A sequence, or a window, reaches from the last token of the early piece to the first of the late one. */
            needed = needed || (early < late && begin < real && begin / L == last / L &&
                                (s->window == 0 || begin - last < s->window));
        }
        n += needed;
    }
    return n;
}

/* Returns the pairs of the sequences that lie inside one of this rank's leaves. */
static double inner_pairs(const tess_context_sizes *s, const tess_context *context)
{
    const int64_t rows = s->n_tokens / context->n_leaves, n_real = s->n_tokens - s->n_filled;
    double pairs = 0;
    int first, n = own_leaves(context, &first);
    for (int leaf = first; leaf < first + n; leaf++) {
        const int64_t begin = tess_context_piece(context, leaf) * rows, end = begin + rows;
        const int64_t from = (begin + s->length - 1) / s->length * s->length;
        const int64_t to = end >= n_real ? end : end / s->length * s->length;
        pairs += from < to ? pairs_of(s, from, to, false) : 0;
    }
    return pairs;
}

/* The rank attends with its own queries. In both directions a leaf of keys travels to each rank that sees it. In
 * backward a leaf of queries, their gradients, and two numbers for each row and head travel to each rank with keys for
 * it. Backward computes seven products, but five for sequences inside one leaf. Layers with sinks compute seven for
 * these, too, which is not counted. */
static tess_context_cost cost_of_ring(const tess_context_sizes *s, const tess_context *context)
{
    const int64_t H = s->n_heads, G = s->n_kv_heads, D = s->head_size, rows = s->n_tokens / context->n_leaves;
    const int64_t keys = pieces_of_others(s, context, true), queries = pieces_of_others(s, context, false);
    tess_context_cost cost = cost_by_rows(s, context, G);
    cost.backward.flops -= 2 * 2.0 * (double)(H * s->head_size) * inner_pairs(s, context);
    cost.forward.elements = keys * rows * 2 * G * D;
    cost.forward.exchanges = keys;
    cost.backward.elements = cost.forward.elements + queries * rows * 2 * H * D;
    cost.backward.floats = queries * rows * 2 * H;
    cost.backward.exchanges = keys + queries * (H / G);
    return cost;
}

tess_context_cost tess_context_cost_of(const tess_context_sizes *sizes, const tess_context *context,
                                       tess_context_way way)
{
    if (way == TESS_WAY_ULYSSES || context->points.degree == 1)
        return cost_by_heads(sizes, context);
    return way == TESS_WAY_RING ? cost_of_ring(sizes, context) : cost_of_gather(sizes, context);
}
