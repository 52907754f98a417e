/* Ranks that divide tokens: the work that is estimated is the work that tess_pieces_take hands out, and the figures of
 * the estimate are those of its sources. */
#include <math.h>

#include "support/rig.h"

#include "engine/batch/context_pieces.h"
#include "plan/context_plan.h"

enum { MOST_TOKENS = 2048 };

/* ---- The work that ranks get ---- */
typedef struct tokens {
    int32_t ids[MOST_TOKENS], pos[MOST_TOKENS], cu_seqlens[MOST_TOKENS + 1];
} tokens;

/* Rows of `length` tokens; ids are their places in the micro-batch. */
static tess_batch make_rows(tokens *t, int64_t n_tokens, int64_t length)
{
    int64_t n = 0;
    for (int64_t i = 0; i < n_tokens; i++) {
        t->ids[i] = (int32_t)i;
        t->pos[i] = (int32_t)(i % length);
        if (i % length == 0)
            t->cu_seqlens[n++] = (int32_t)i;
    }
    t->cu_seqlens[n] = (int32_t)n_tokens;
    return (tess_batch){.n_tokens = n_tokens,
                        .n_seqs = n,
                        .ids = t->ids,
                        .pos = t->pos,
                        .targets = t->ids,
                        .cu_seqlens = t->cu_seqlens};
}

/* Counts, over this rank's tokens, the keys that each sees, or the queries that see it. */
static double count_pairs(const tess_batch *own, const tess_context_sizes *s, bool by_keys)
{
    double pairs = 0;
    for (int64_t i = 0; i < own->n_tokens; i++) {
        const int64_t real = s->n_tokens - s->n_filled, end = (own->ids[i] / s->length + 1) * s->length;
        const int64_t all = own->targets[i] < 0 ? 1
                            : by_keys           ? (end < real ? end : real) - own->ids[i]
                                                : own->pos[i] + 1;
        pairs += (double)(s->window > 0 && s->window < all ? s->window : all);
    }
    return pairs;
}

static void check_rank(tess_pieces *pieces, int64_t n_tokens, int64_t length, int64_t window)
{
    static tokens t;
    tess_batch batch = make_rows(&t, n_tokens, length);
    const int degree = pieces->context.points.degree;
    const int64_t all = tess_context_tokens(&pieces->context, n_tokens) * degree;
    const tess_context_sizes sizes = {.n_tokens = all, .length = length, .n_filled = all - n_tokens, .window = window};
    EXPECT_OK(tess_pieces_take(pieces, 0, &batch));
    for (int keys = 0; keys < 2; keys++)
        EXPECT(tess_context_token_pairs(&sizes, &pieces->context, keys) == count_pairs(&batch, &sizes, keys));
    for (int64_t i = 0; i < batch.n_tokens; i++)
        if (batch.targets[i] >= 0)
            EXPECT_INT(tess_pieces_token(pieces, 0, i), batch.ids[i]);
}

static void pairs_and_places_are_those_of_the_tokens_that_a_rank_gets(void)
{
    for (int degree = 1; degree <= 8; degree *= 2)
        for (int rank = 0; rank < degree; rank++)
            for (int folded = 0; folded < 2; folded++) {
                tess_pieces pieces = {
                    .context = {.points = {.rank = rank, .degree = degree}, .n_leaves = 2 * degree, .folded = folded},
                    .mem = test_mem(),
                    .max_tokens = MOST_TOKENS / degree};
                check_rank(&pieces, 1024, 1024, 0);
                check_rank(&pieces, 1001, 1001, 0);
                check_rank(&pieces, 1001, 143, 0);
                check_rank(&pieces, 700, 97, 13);
                tess_pieces_free(&pieces);
            }
}

/* The pieces of the tokens that each rank gets, if 2 c pieces are one row: piece i needs i + 1 pieces of keys. */
static void the_busiest_rank_has_4c_1_pairs_of_pieces_or_2c_1(void)
{
    static const double ratios[] = {1.40, 1.67, 1.82};
    static tokens t;
    for (int degree = 2, i = 0; degree <= 8; degree *= 2, i++) {
        int64_t most[2] = {0, 0};
        for (int folded = 0; folded < 2; folded++)
            for (int rank = 0; rank < degree; rank++) {
                const int64_t piece = 32;
                tess_pieces pieces = {
                    .context = {.points = {.rank = rank, .degree = degree}, .n_leaves = 2 * degree, .folded = folded},
                    .mem = test_mem(),
                    .max_tokens = 2 * piece};
                tess_batch batch = make_rows(&t, 2 * degree * piece, 2 * degree * piece);
                EXPECT_OK(tess_pieces_take(&pieces, 0, &batch));
                int64_t pairs = 0;
                for (int64_t k = 0; k < batch.n_tokens; k += piece)
                    pairs += batch.ids[k] / piece + 1;
                EXPECT_INT(tess_context_piece_pairs(&pieces.context), pairs);
                most[folded] = pairs > most[folded] ? pairs : most[folded];
                tess_pieces_free(&pieces);
            }
        EXPECT_INT(most[false], 4 * degree - 1);
        EXPECT_INT(most[true], 2 * degree + 1);
        EXPECT(round(100.0 * (double)most[false] / (double)most[true]) == round(100 * ratios[i]));
        const tess_context_case of = {
            .n_heads = 1, .n_kv_heads = 1, .head_size = 1, .n_full = 1, .rows = 1, .length = 1024};
        for (int folded = 0; folded < 2; folded++)
            EXPECT_INT(
                tess_context_estimate_of(&of, &(tess_context_choice){degree, 2 * degree, TESS_WAY_GATHER, folded})
                    .piece_pairs,
                most[folded]);
    }
}

/* ---- Figures ---- */
static const double GiB = 0x1p30;

/* The sources also print ring 18.00 and total 24.00 for one row and 4 ranks. Their own formula does not give that. */
static void the_rule_of_thumb_has_the_figures_of_its_sources(void)
{
    for (int64_t rows = 1; rows <= 4; rows += 3) {
        const double n = (double)rows * GiB;
        const tess_context_rule one = tess_context_rule_of(4096, 32, rows, 32768, TESS_BF16, 1),
                                four = tess_context_rule_of(4096, 32, rows, 32768, TESS_BF16, 4);
        EXPECT(one.activations == 32 * n && one.ring == 0 && one.gather == 0 && one.total == 0);
        EXPECT(four.activations == 8 * n && four.ring == 12 * n && four.gather == 6 * n && four.total == 36 * n);
    }
}

/* If keys are as wide as the stream, the keys and values of a forward are those of the rule of thumb. */
static void what_a_rank_receives_is_the_formula(void)
{
    const tess_context_case of = {.n_heads = 32,
                                  .n_kv_heads = 32,
                                  .head_size = 128,
                                  .n_full = 32,
                                  .rows = 4,
                                  .length = 32768,
                                  .dtype = TESS_BF16};
    const double n = 4 * 32768, floats = n * 32 * 4 * 32; /* bytes of a float for each token and head, in 32 layers */
    tess_context_choice choice = {.degree = 4, .n_leaves = 8, .folded = true};
    tess_context_estimate e[TESS_CONTEXT_WAYS];
    for (choice.way = 0; choice.way < TESS_CONTEXT_WAYS; choice.way++)
        e[choice.way] = tess_context_estimate_of(&of, &choice);
    EXPECT(e[TESS_WAY_GATHER].forward_bytes == 48 * GiB);
    EXPECT(e[TESS_WAY_GATHER].backward_bytes == e[TESS_WAY_ULYSSES].backward_bytes);
    EXPECT(e[TESS_WAY_ULYSSES].forward_bytes == 0.75 * 0.25 * (4 * 32 * GiB + floats));
    EXPECT(e[TESS_WAY_ULYSSES].backward_bytes == 0.75 * 0.25 * (8 * 32 * GiB + floats));
    for (int way = 0; way < TESS_CONTEXT_WAYS; way++)
        EXPECT_INT(e[way].tokens, 4 * 32768 / 4);
}

/* Rank r of c needs no leaf of keys after its own last one: (c - 1 - r / 2) L / c of those of others.
 * With rows that are as long as a rank's tokens, the order decides whether any leaf travels. */
static void a_ring_receives_the_leaves_that_a_rank_needs(void)
{
    enum { c = 4, L = 16, T = 4096 };
    tess_context_sizes sizes = {.n_heads = 6, .n_kv_heads = 3, .head_size = 16, .n_tokens = T, .length = T};
    tess_context context = {.points.degree = c, .n_leaves = L, .folded = true};
    for (context.points.rank = 0; context.points.rank < c; context.points.rank++) {
        const tess_context_cost cost = tess_context_cost_of(&sizes, &context, TESS_WAY_RING);
        const int64_t leaves = (2 * (c - 1) - context.points.rank) * L / (2 * c);
        EXPECT_INT(cost.forward.exchanges, leaves);
        EXPECT_INT(cost.forward.elements, leaves * (T / L) * 2 * 3 * 16);
        EXPECT(cost.backward.floats > 0 && cost.backward.flops > cost.forward.flops);
    }
    sizes.length = T / c;
    context.points.rank = 1;
    EXPECT(tess_context_cost_of(&sizes, &context, TESS_WAY_RING).forward.elements > 0);
    context.folded = false;
    EXPECT_INT(tess_context_cost_of(&sizes, &context, TESS_WAY_RING).forward.elements, 0);
    sizes.length = T;
    sizes.window = T / L + 1; /* the piece before, and no other */
    EXPECT_INT(tess_context_cost_of(&sizes, &context, TESS_WAY_RING).forward.exchanges, 1);
}

/* A ring's backward has seven products of a long row. It has five for sequences inside one leaf, also if some others
 * cross the end of a leaf. */
static void a_ring_computes_five_products_inside_a_leaf(void)
{
    enum { T = 4096, L = 16, LEAF = T / L };
    tess_context_sizes sizes = {.n_heads = 6, .n_kv_heads = 3, .head_size = 16, .n_tokens = T, .length = LEAF / 2};
    tess_context context = {.points = {.degree = 4, .rank = 1}, .n_leaves = L};
    const double product = 2.0 * 6 * 16, pair = LEAF / 2 * (LEAF / 2 + 1) / 2;
    EXPECT(tess_context_cost_of(&sizes, &context, TESS_WAY_RING).backward.flops == 5 * product * 8 * pair);
    context.points.rank = 0;
    sizes.length = 3 * LEAF / 4; /* some cross the end of a leaf */
    double inner = 0, all = 0;
    for (int64_t t = 0; t < 4 * LEAF; t++) {
        const int64_t first = t / sizes.length * sizes.length, last = first + sizes.length - 1;
        all += (double)(t - first + 1);
        inner += first / LEAF == last / LEAF ? (double)(t - first + 1) : 0;
    }
    const double by_keys = tess_context_token_pairs(&sizes, &context, true);
    EXPECT(inner > 0 && inner < all);
    EXPECT(tess_context_cost_of(&sizes, &context, TESS_WAY_RING).backward.flops ==
           product * (3 * (all - inner) + 4 * (by_keys - inner) + 5 * inner));
}

/* One key head on two ranks: the second one has nothing to do in attention. */
static void times_are_operations_bytes_and_exchanges(void)
{
    tess_context_case of = {.n_heads = 2,
                            .n_kv_heads = 1,
                            .head_size = 8,
                            .n_full = 3,
                            .rows = 1,
                            .length = 256,
                            .dtype = TESS_F32,
                            .other_flops = 600,
                            .speed = {.flops = 1e6, .bytes_per_s = 1e5, .latency_s = 0.25}};
    const double pairs = 256 * 257 / 2, attention = 7 * 2 * 16 * pairs, other = 600 * 256;
    tess_context_estimate e =
        tess_context_estimate_of(&of, &(tess_context_choice){.degree = 1, .n_leaves = 1, .way = TESS_WAY_GATHER});
    EXPECT(fabs(e.compute_s - (3 * attention + other) / 1e6) < 1e-9 && e.exchange_s == 0 && e.step_s == e.compute_s);
    EXPECT(e.load == 1);
    e = tess_context_estimate_of(&of, &(tess_context_choice){2, 4, TESS_WAY_ULYSSES, true});
    EXPECT(fabs(e.compute_s - (3 * attention + other / 2) / 1e6) < 1e-9 && e.load == 2);
    /* The first rank receives q, k and v of 128 tokens and then, in backward, also outputs and their gradients. */
    EXPECT(fabs(e.forward_bytes - 3 * 4 * 128.0 * 32) < 1e-9);
    EXPECT(fabs(e.backward_bytes - 3 * 4 * 128.0 * (8 * 8 + 2)) < 1e-9);
    EXPECT(fabs(e.exchange_s - ((e.forward_bytes + e.backward_bytes) / 1e5 + 3 * 14 * 0.25)) < 1e-9);
    EXPECT(fabs(e.step_s - e.compute_s - e.exchange_s) < 1e-9);
    of.recomputes = true;
    const double once = e.compute_s;
    e = tess_context_estimate_of(&of, &(tess_context_choice){2, 4, TESS_WAY_ULYSSES, true});
    EXPECT(fabs(e.compute_s - once - (3 * attention * 2 / 7 + other / 6) / 1e6) < 1e-9);
}

static const test_case cases[] = {
    CASE(pairs_and_places_are_those_of_the_tokens_that_a_rank_gets),
    CASE(the_busiest_rank_has_4c_1_pairs_of_pieces_or_2c_1),
    CASE(the_rule_of_thumb_has_the_figures_of_its_sources),
    CASE(what_a_rank_receives_is_the_formula),
    CASE(a_ring_receives_the_leaves_that_a_rank_needs),
    CASE(a_ring_computes_five_products_inside_a_leaf),
    CASE(times_are_operations_bytes_and_exchanges),
};
TEST_MAIN(cases)
