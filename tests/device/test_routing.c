/* Mixtures of experts: the choice of experts, the order of sorted rows, sums over a token's experts, and gradients. */
#include "elementwise_test.h"

enum { MOST_K = 9 };

typedef struct routing {
    float *logits, *probs, *weights, *lse, *gate;
    int32_t *chosen, *ends, *place, *token;
} routing;

static routing make(int64_t T, int64_t E, int64_t K)
{
    const routing r = {.logits = random_array(1, T * E, 0, 2, TESS_F32),
                       .probs = blank_array(T * E, TESS_F32),
                       .weights = blank_array(T * K, TESS_F32),
                       .lse = blank_array(T, TESS_F32),
                       .gate = blank_array(T * K, TESS_F32),
                       .chosen = new_array(T * K, sizeof(int32_t)),
                       .ends = new_array(E, sizeof(int32_t)),
                       .place = new_array(T * K, sizeof(int32_t)),
                       .token = new_array(T * K, sizeof(int32_t))};
    return r;
}

static void drop(routing *r)
{
    void *const all[] = {r->logits, r->probs, r->weights, r->lse, r->gate, r->chosen, r->ends, r->place, r->token};
    for (size_t i = 0; i < COUNT(all); i++)
        free(all[i]);
}

static void run(tess_stream *s, routing *r, int64_t T, int64_t E, int64_t K, bool normalize)
{
    EXPECT_OK(tess_stream_kernels(s)->route(s, &(tess_route_args){.logits = r->logits,
                                                                  .probs = r->probs,
                                                                  .chosen = r->chosen,
                                                                  .weights = r->weights,
                                                                  .lse = r->lse,
                                                                  .T = T,
                                                                  .E = E,
                                                                  .K = K,
                                                                  .rule.normalize = normalize}));
    EXPECT_OK(tess_stream_kernels(s)->sort_rows(s, &(tess_sort_rows_args){.chosen = r->chosen,
                                                                          .weights = r->weights,
                                                                          .ends = r->ends,
                                                                          .place = r->place,
                                                                          .token = r->token,
                                                                          .gate = r->gate,
                                                                          .T = T,
                                                                          .E = E,
                                                                          .K = K,
                                                                          .leaves = 1}));
}

/* How many experts come before expert e: those with a larger p, and those with the same p and a lower number. */
static int rank_of(const float *p, int64_t E, int64_t e)
{
    int before = 0;
    for (int64_t i = 0; i < E; i++)
        before += p[i] > p[e] || (p[i] == p[e] && i < e);
    return before;
}

static void expect_routing(const routing *r, int64_t T, int64_t E, int64_t K, bool normalize)
{
    for (int64_t t = 0; t < T; t++) {
        const float *x = r->logits + t * E, *p = r->probs + t * E;
        double sum = 0, chosen_sum = 0;
        int64_t k = 0;
        for (int64_t e = 0; e < E; e++)
            sum += exp((double)x[e]);
        expect_near("lse", t, (double)r->lse[t], log(sum), 1e-5);
        for (int64_t k2 = 0; k2 < K; k2++)
            chosen_sum += exp((double)x[r->chosen[t * K + k2]]) / sum;
        for (int64_t e = 0; e < E; e++) {
            expect_near("p", t * E + e, (double)p[e], exp((double)x[e]) / sum, 1e-6);
            if (rank_of(p, E, e) >= K)
                continue;
            EXPECT_INT(r->chosen[t * K + k], e);
            expect_near("weight", t * K + k, (double)r->weights[t * K + k],
                        exp((double)x[e]) / sum / (normalize ? chosen_sum : 1), 1e-6);
            k++;
        }
        EXPECT_INT(k, K);
    }
    for (int64_t e = 0, row = 0; e < E; e++) {
        for (; row < r->ends[e]; row++) {
            const int64_t t = r->token[row];
            int64_t k = 0;
            while (k < K && r->chosen[t * K + k] != e)
                k++;
            EXPECT(k < K && r->place[t * K + k] == row && r->gate[row] == r->weights[t * K + k]);
            EXPECT(row == 0 || r->token[row - 1] < t || (e > 0 && row == r->ends[e - 1]));
        }
        EXPECT_INT(row, r->ends[e]);
    }
    EXPECT_INT(r->ends[E - 1], T * K);
}

static void routers_choose_the_largest_and_rows_are_sorted(void)
{
    static const int64_t sizes[][3] = {{0, 3, 2}, {1, 1, 1}, {5, 4, 4}, {37, 8, 2}, {64, 65, MOST_K}, {3, 257, 1}};
    for (size_t v = 0; v < COUNT(variants); v++) {
        tess_stream *s = open_variant(v);
        for (size_t i = 0; i < COUNT(sizes) * 2 && s != NULL; i++) {
            const int64_t *n = sizes[i / 2];
            routing r = make(n[0], n[1], n[2]), want = make(n[0], n[1], n[2]);
            tess_stream *ref = open_variant(0);
            run(ref, &want, n[0], n[1], n[2], i % 2);
            run(s, &r, n[0], n[1], n[2], i % 2);
            expect_routing(&r, n[0], n[1], n[2], i % 2);
            expect_bits("p", v, r.probs, want.probs, n[0] * n[1], TESS_F32);
            expect_bits("weights", v, r.weights, want.weights, n[0] * n[2], TESS_F32);
            expect_bits("lse", v, r.lse, want.lse, n[0], TESS_F32);
            drop(&r);
            drop(&want);
            tess_stream_destroy(&ref);
        }
        tess_stream_destroy(&s);
    }
}

/* Leaves change nothing but `ends`, which then counts the rows of each leaf, too. */
static void leaves_count_their_own_rows(void)
{
    enum { T = 24, E = 7, K = 3, LEAVES = 4 };
    for (size_t v = 0; v < COUNT(variants); v++) {
        tess_stream *s = open_variant(v);
        if (s == NULL)
            continue;
        routing r = make(T, E, K), cut = make(T, E, K);
        int32_t ends[E * LEAVES];
        run(s, &r, T, E, K, true);
        tess_sort_rows_args args = {.chosen = r.chosen,
                                    .weights = r.weights,
                                    .ends = ends,
                                    .place = cut.place,
                                    .token = cut.token,
                                    .gate = cut.gate,
                                    .T = T,
                                    .E = E,
                                    .K = K,
                                    .leaves = LEAVES};
        EXPECT_OK(tess_stream_kernels(s)->sort_rows(s, &args));
        EXPECT(memcmp(cut.place, r.place, sizeof(int32_t) * T * K) == 0);
        EXPECT(memcmp(cut.token, r.token, sizeof(int32_t) * T * K) == 0);
        EXPECT_SAME(cut.gate, r.gate, T * K);
        for (int i = 0, row = 0; i < E * LEAVES; i++)
            for (; row < ends[i]; row++) {
                const int t = cut.token[row];
                EXPECT_INT(t / (T / LEAVES), i % LEAVES);
                EXPECT(r.chosen[t * K] == i / LEAVES || r.chosen[t * K + 1] == i / LEAVES ||
                       r.chosen[t * K + 2] == i / LEAVES);
            }
        EXPECT_INT(ends[E * LEAVES - 1], T * K);
        args.leaves = 5;
        EXPECT_FAILS(tess_stream_kernels(s)->sort_rows(s, &args), TESS_E_INVALID,
                     "24 tokens do not make 5 equal leaves");
        drop(&r);
        drop(&cut);
        tess_stream_destroy(&s);
    }
}

/* Equal logits choose the lowest numbers. A NaN or an infinity gives NaN; other rows stay as they are. */
static void ties_choose_the_lowest_expert_and_a_nan_stays_in_its_row(void)
{
    enum { T = 5, E = 19, K = 3 };
    for (size_t v = 0; v < COUNT(variants); v++) {
        tess_stream *s = open_variant(v);
        if (s == NULL)
            continue;
        routing r = make(T, E, K);
        for (int i = 0; i < T * E; i++)
            r.logits[i] = i % E == 7 ? 1 : 0.25f;
        run(s, &r, T, E, K, true);
        expect_routing(&r, T, E, K, true);
        EXPECT(r.chosen[0] == 0 && r.chosen[1] == 1 && r.chosen[2] == 7);
        for (int bad = 0; bad < 3; bad++) {
            r.logits[2 * E + 11] = bad == 0 ? NAN : bad == 1 ? INFINITY : -INFINITY;
            run(s, &r, T, E, K, true);
            EXPECT(isnan(r.weights[2 * K]) == (bad < 2) && r.weights[K] == r.weights[0]);
            EXPECT(r.chosen[2 * K] == 0 && r.chosen[2 * K + 1] == 1);
        }
        drop(&r);
        tess_stream_destroy(&s);
    }
}

/* ---- Sums over experts ---- */
static void combinations_and_their_gradients_agree_with_float64(void)
{
    static const tess_dtype dtypes[] = {TESS_F32, TESS_BF16, TESS_F16};
    enum { T = 6, E = 5, K = 2, N = T * K, C = 141 };
    for (size_t i = 0; i < COUNT(variants) * COUNT(dtypes); i++) {
        const tess_dtype dtype = dtypes[i % COUNT(dtypes)];
        const size_t v = i / COUNT(dtypes), size = tess_dtype_size(dtype);
        const double exact = dtype == TESS_F32 ? 1e-5 : dtype == TESS_BF16 ? 0.02 : 3e-3;
        if (dtype == TESS_F16 && strcmp(variants[v].level, "cuda") == 0)
            continue;
        tess_stream *s = open_variant(v);
        if (s == NULL)
            continue;
        routing r = make(T, E, K);
        run(s, &r, T, E, K, false);
        char *rows = new_array(N * C, size), *base = new_array(T * C, size), *y = new_array(T * C, size);
        float *dgate = r.gate; /* each gradient replaces its gate */
        float gate[N];
        memcpy(gate, r.gate, sizeof(gate));
        for (int k = 0; k < N * C; k++)
            tess_put_float(rows, dtype, (size_t)k, tess_rng_normal(7, TESS_RNG_TEST, 2, (uint64_t)k));
        for (int k = 0; k < T * C; k++)
            tess_put_float(base, dtype, (size_t)k, tess_rng_normal(7, TESS_RNG_TEST, 3, (uint64_t)k));
        const tess_combine_rows_args plain = {.rows = rows,
                                              .gate = r.gate,
                                              .place = r.place,
                                              .base = base,
                                              .y = y,
                                              .T = T,
                                              .K = K,
                                              .C = C,
                                              .dtype = dtype};
        for (int way = 0; way < 4; way++) {
            tess_combine_rows_args a = plain;
            a.gate = way & 1 ? r.gate : NULL;
            a.base = way & 2 ? base : NULL;
            EXPECT_OK(tess_stream_kernels(s)->combine_rows(s, &a));
            for (int at = 0; at < T * C; at++) {
                double want = way & 2 ? (double)tess_get_float(base, dtype, (size_t)at) : 0;
                for (int k = 0; k < K; k++) {
                    int row = r.place[at / C * K + k];
                    want += (way & 1 ? (double)r.gate[row] : 1) *
                            (double)tess_get_float(rows, dtype, (size_t)(row * C + at % C));
                }
                expect_near("y", at, (double)tess_get_float(y, dtype, (size_t)at), want, exact * (1 + fabs(want)));
            }
        }
        /* rows of the base, each with the sigmoid of a number, and the gradients of that */
        tess_combine_rows_args gated = plain;
        gated.rows = rows, gated.place = NULL, gated.K = 1, gated.sigmoid = true;
        EXPECT_OK(tess_stream_kernels(s)->combine_rows(s, &gated));
        for (int at = 0; at < T * C; at++) {
            const double sigmoid = 1 / (1 + exp(-(double)gate[at / C])),
                         to = (double)tess_get_float(base, dtype, (size_t)at) +
                              sigmoid * (double)tess_get_float(rows, dtype, (size_t)at);
            expect_near("gated", at, (double)tess_get_float(y, dtype, (size_t)at), to, exact * (1 + fabs(to)));
        }
        float slope[T];
        EXPECT_OK(tess_stream_kernels(s)->combine_backward(s, &(tess_combine_grad_args){.dy = base,
                                                                                        .rows = rows,
                                                                                        .gate = r.gate,
                                                                                        .drows = y,
                                                                                        .dgate = slope,
                                                                                        .n = T,
                                                                                        .C = C,
                                                                                        .sigmoid = true,
                                                                                        .dtype = dtype}));
        for (int t = 0; t < T; t++) {
            const double sigmoid = 1 / (1 + exp(-(double)gate[t]));
            double sum = 0;
            for (int c = 0; c < C; c++) {
                const size_t at = (size_t)(t * C + c);
                const double dy = (double)tess_get_float(base, dtype, at);
                sum += dy * (double)tess_get_float(rows, dtype, at);
                expect_near("dgated", (int)at, (double)tess_get_float(y, dtype, at), sigmoid * dy,
                            exact * (1 + fabs(dy)));
            }
            expect_near("slope", t, (double)slope[t], sum * sigmoid * (1 - sigmoid), 1e-4);
        }
        double want[N] = {0};
        for (int at = 0; at < N * C; at++)
            want[at / C] += (double)tess_get_float(rows, dtype, (size_t)at) *
                            (double)tess_get_float(base, dtype, (size_t)(r.token[at / C] * C + at % C));
        EXPECT_OK(tess_stream_kernels(s)->combine_backward(s, &(tess_combine_grad_args){.dy = base,
                                                                                        .rows = rows,
                                                                                        .gate = r.gate,
                                                                                        .token = r.token,
                                                                                        .drows = rows,
                                                                                        .dgate = dgate,
                                                                                        .n = N,
                                                                                        .C = C,
                                                                                        .dtype = dtype}));
        for (int row = 0; row < N; row++)
            expect_near("dgate", row, (double)dgate[row], want[row], 1e-4);
        for (int at = 0; at < N * C; at++) {
            double d =
                (double)gate[at / C] * (double)tess_get_float(base, dtype, (size_t)(r.token[at / C] * C + at % C));
            expect_near("drows", at, (double)tess_get_float(rows, dtype, (size_t)at), d, exact * (1 + fabs(d)));
        }
        free(rows);
        free(base);
        free(y);
        drop(&r);
        tess_stream_destroy(&s);
    }
}

/* The sum of dgate times weights, plus the two auxiliary losses, of one row of logits in float64; the choice of experts
 * is given. */
static double loss_of(const double *x, const int32_t *chosen, const double *dgate, const int32_t *ends, double balance,
                      double z, int E, int K, bool normalize)
{
    double sum = 0, total = 0, loss = 0;
    for (int e = 0; e < E; e++)
        sum += exp(x[e]);
    for (int k = 0; k < K; k++)
        total += exp(x[chosen[k]]) / sum;
    for (int k = 0; k < K; k++)
        loss += dgate[k] * exp(x[chosen[k]]) / sum / (normalize ? total : 1);
    for (int e = 0; e < E; e++)
        loss += balance * (ends[e] - (e > 0 ? ends[e - 1] : 0)) * exp(x[e]) / sum;
    return loss + z * log(sum) * log(sum) / 2;
}

static void the_gradient_of_logits_agrees_with_differences(void)
{
    enum { T = 7, E = 6, K = 3 };
    static const float balance = 0.07f, z = 0.3f;
    tess_stream *s = open_variant(0);
    for (int normalize = 0; normalize < 2; normalize++) {
        routing r = make(T, E, K);
        float *dgate = random_array(5, T * K, 0, 1, TESS_F32), dlogits[T * E];
        run(s, &r, T, E, K, normalize);
        EXPECT_OK(tess_stream_kernels(s)->route_backward(s, &(tess_route_grad_args){.probs = r.probs,
                                                                                    .chosen = r.chosen,
                                                                                    .place = r.place,
                                                                                    .weights = r.weights,
                                                                                    .dgate = dgate,
                                                                                    .ends = r.ends,
                                                                                    .lse = r.lse,
                                                                                    .balance = balance,
                                                                                    .z = z,
                                                                                    .dlogits = dlogits,
                                                                                    .T = T,
                                                                                    .E = E,
                                                                                    .K = K,
                                                                                    .rule.normalize = normalize}));
        for (int i = 0; i < T * E; i++) {
            const int t = i / E;
            double x[E], d[K], sides[2];
            for (int k = 0; k < K; k++)
                d[k] = (double)dgate[r.place[t * K + k]];
            for (int side = 0; side < 2; side++) {
                for (int e = 0; e < E; e++)
                    x[e] = (double)r.logits[t * E + e] + (e == i % E ? (side == 0 ? 1e-5 : -1e-5) : 0);
                sides[side] = loss_of(x, r.chosen + t * K, d, r.ends, (double)balance, (double)z, E, K, normalize);
            }
            expect_near("dlogits", i, (double)dlogits[i], (sides[0] - sides[1]) / 2e-5, 1e-5);
        }
        free(dgate);
        drop(&r);
    }
    tess_stream_destroy(&s);
}

/* The sum of dgate times weights of a row of a router with sigmoids, in float64; the choice of experts is given. */
static double sigmoid_loss_of(const double *x, const int32_t *chosen, const double *dgate, int K, double scale)
{
    double total = 0, loss = 0;
    for (int k = 0; k < K; k++)
        total += 1 / (1 + exp(-x[chosen[k]]));
    for (int k = 0; k < K; k++)
        loss += dgate[k] * scale / (1 + exp(-x[chosen[k]])) / total;
    return loss;
}

/* The weights of tokens that choose K of E experts, in the two groups of four with the largest sums of two p + bias. */
static void routers_with_groups_choose_from_the_best_ones(void)
{
    enum { T = 9, E = 12, K = 3, GROUPS = 4, SIZE = E / GROUPS };
    const tess_route_rule rule = {GROUPS, 2, 1.7f, .normalize = true, .sigmoid = true, .two_best = true};
    for (size_t v = 0; v < COUNT(variants); v++) {
        tess_stream *s = open_variant(v);
        if (s == NULL)
            continue;
        routing r = make(T, E, K);
        float *bias = random_array(3, E, 0, 0.5, TESS_F32), *dgate = random_array(5, T * K, 0, 1, TESS_F32),
              dlogits[T * E];
        int32_t place[T * K];
        EXPECT_OK(tess_stream_kernels(s)->route(s, &(tess_route_args){.logits = r.logits,
                                                                      .bias = bias,
                                                                      .probs = r.probs,
                                                                      .chosen = r.chosen,
                                                                      .weights = r.weights,
                                                                      .T = T,
                                                                      .E = E,
                                                                      .K = K,
                                                                      .rule = rule}));
        for (int i = 0; i < T * K; i++)
            place[i] = i;
        EXPECT_OK(tess_stream_kernels(s)->route_backward(s, &(tess_route_grad_args){.probs = r.probs,
                                                                                    .chosen = r.chosen,
                                                                                    .place = place,
                                                                                    .weights = r.weights,
                                                                                    .dgate = dgate,
                                                                                    .dlogits = dlogits,
                                                                                    .T = T,
                                                                                    .E = E,
                                                                                    .K = K,
                                                                                    .rule = rule}));
        for (int t = 0; t < T; t++) {
            double x[E], d[K], score[E], group[GROUPS], total = 0;
            for (int e = 0; e < E; e++) {
                x[e] = (double)r.logits[t * E + e];
                score[e] = 1 / (1 + exp(-x[e])) + (double)bias[e];
            }
            for (int g = 0; g < GROUPS; g++) { /* three scores without the least */
                const double *of = score + (ptrdiff_t)g * SIZE;
                group[g] = of[0] + of[1] + of[2] - fmin(of[0], fmin(of[1], of[2]));
            }
            for (int k = 0; k < K; k++) {
                total += 1 / (1 + exp(-x[r.chosen[t * K + k]]));
                d[k] = (double)dgate[t * K + k];
            }
            for (int e = 0, k = 0; e < E; e++) {
                int better_groups = 0, better = 0;
                for (int g = 0; g < GROUPS; g++)
                    better_groups += group[g] > group[e / SIZE];
                for (int i = 0; i < E; i++) {
                    int above = 0;
                    for (int g = 0; g < GROUPS; g++)
                        above += group[g] > group[i / SIZE];
                    better += above < 2 && score[i] > score[e];
                }
                const bool chosen = k < K && r.chosen[t * K + k] == e;
                EXPECT_INT(chosen, better_groups < 2 && better < K);
                if (chosen)
                    expect_near("weight", t, (double)r.weights[t * K + k], 1.7 / (1 + exp(-x[e])) / total, 1e-5);
                k += chosen;
                double sides[2];
                for (int side = 0; side < 2; side++) {
                    x[e] += side == 0 ? 1e-5 : -2e-5;
                    sides[side] = sigmoid_loss_of(x, r.chosen + t * K, d, K, 1.7);
                }
                x[e] += 1e-5;
                expect_near("dlogit", t * E + e, (double)dlogits[t * E + e], (sides[0] - sides[1]) / 2e-5, 1e-4);
            }
        }
        free(bias);
        free(dgate);
        drop(&r);
        tess_stream_destroy(&s);
    }
}

static void impossible_arguments_are_refused(void)
{
    for (size_t v = 0; v < COUNT(variants); v++) {
        tess_stream *s = open_variant(v);
        if (s == NULL)
            continue;
        const tess_kernels *k = tess_stream_kernels(s);
        EXPECT_FAILS(k->route(s, &(tess_route_args){.E = 4, .K = 5}), TESS_E_INVALID, "5 of 4 experts");
        EXPECT_FAILS(k->route(s, &(tess_route_args){.E = 80, .K = 65}), TESS_E_INVALID, "at most 64");
        EXPECT_FAILS(k->route_backward(s, &(tess_route_grad_args){.E = 80, .K = 65, .dtype = TESS_F32}), TESS_E_INVALID,
                     "at most 64");
        EXPECT_FAILS(k->combine_rows(s, &(tess_combine_rows_args){.dtype = TESS_I32}), TESS_E_UNSUPPORTED, "int32");
        EXPECT_FAILS(k->combine_backward(s, &(tess_combine_grad_args){.dtype = TESS_U8}), TESS_E_UNSUPPORTED, "uint8");
        tess_stream_destroy(&s);
    }
}

static const test_case cases[] = {
    CASE(routers_choose_the_largest_and_rows_are_sorted),
    CASE(ties_choose_the_lowest_expert_and_a_nan_stays_in_its_row),
    CASE(leaves_count_their_own_rows),
    CASE(combinations_and_their_gradients_agree_with_float64),
    CASE(the_gradient_of_logits_agrees_with_differences),
    CASE(routers_with_groups_choose_from_the_best_ones),
    CASE(impossible_arguments_are_refused),
};

TEST_MAIN(cases)
