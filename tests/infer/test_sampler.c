/* Draws of tokens: their shares, limits, and the same draw on any machine. */
#include <math.h>

#include "base/core/rng.h"
#include "infer/sampler.h"
#include "support/test.h"

static int32_t draw(tess_sampler *sampler, tess_sampling options, const float *logits, uint64_t stream,
                    uint64_t position)
{
    tess_draw row = {.logits = logits, .id = stream, .position = position};
    EXPECT_OK(tess_sampler_draw(sampler, &options, &row, 1));
    return row.token;
}

static tess_threads *threads;

static tess_sampler *make_sampler_with(int n_threads, int64_t vocab_size)
{
    tess_sampler *sampler = NULL;
    EXPECT_OK(tess_threads_create(test_mem(), n_threads, &threads));
    EXPECT_OK(tess_sampler_create(test_mem(), threads, vocab_size, &sampler));
    return sampler;
}

static tess_sampler *make_sampler(int64_t vocab_size)
{
    return make_sampler_with(1, vocab_size);
}

static void end_sampler(tess_sampler *sampler)
{
    tess_sampler_destroy(&sampler);
    tess_threads_destroy(&threads);
}

static void fill_logits(float *logits, int n, uint64_t stream)
{
    for (int i = 0; i < n; i++)
        logits[i] = 4 * tess_rng_normal(11, TESS_RNG_TEST, stream, (uint64_t)i);
}

static void temperature_zero_takes_the_likeliest_and_of_equals_the_lowest_id(void)
{
    const float logits[] = {-1, 2, -INFINITY, 2, 1.5f};
    tess_sampler *sampler = make_sampler(5);
    EXPECT_INT(draw(sampler, (tess_sampling){.top_p = 1}, logits, 0, 0), 1);
    EXPECT_INT(draw(sampler, (tess_sampling){.top_p = 0.5, .top_k = 3, .seed = 9}, logits, 7, 3), 1);
    end_sampler(sampler);
}

/* Compares a token's share of 20,000 draws with its probability: Pearson's statistic is below the 99.9% quantile. */
static void draws_follow_the_probabilities(void)
{
    enum { V = 12, DRAWS = 20000 };
    static const double temperatures[] = {1, 0.6, 2.5};
    tess_sampler *sampler = make_sampler(V);
    for (int round = 0; round < 3; round++) {
        double probability[V], total = 0, chi2 = 0;
        int count[V] = {0};
        float logits[V];
        for (int i = 0; i < V; i++) {
            logits[i] = 1.5f * tess_rng_normal(5, TESS_RNG_TEST, 0, (uint64_t)i);
            total += probability[i] = exp(logits[i] / temperatures[round]);
        }
        for (int i = 0; i < DRAWS; i++) {
            tess_sampling options = {.temperature = temperatures[round], .top_p = 1, .seed = 42};
            count[draw(sampler, options, logits, (uint64_t)round, (uint64_t)i)]++;
        }
        for (int i = 0; i < V; i++) {
            double expected = probability[i] / total * DRAWS;
            chi2 += (count[i] - expected) * (count[i] - expected) / expected;
        }
        if (chi2 > 31.26) /* 11 degrees of freedom */
            test_fail(__FILE__, __LINE__, "temperature %g: chi-square is %g", temperatures[round], chi2);
    }
    end_sampler(sampler);
}

/* The set of tokens in 3,000 draws. */
static int reach(tess_sampler *sampler, tess_sampling options, const float *logits, int n, bool *reached)
{
    int n_reached = 0;
    memset(reached, 0, (size_t)n);
    for (uint64_t i = 0; i < 3000; i++) {
        int32_t token = draw(sampler, options, logits, 0, i);
        EXPECT(token >= 0 && token < n);
        n_reached += !reached[token];
        reached[token] = true;
    }
    return n_reached;
}

static void top_k_leaves_the_k_likeliest(void)
{
    enum { V = 9 };
    const float logits[V] = {0.1f, 0.3f, -0.2f, 0.25f, 0.3f, -INFINITY, 0, 0.2f, 0.3f};
    bool reached[V];
    tess_sampler *sampler = make_sampler(V);
    tess_sampling options = {.temperature = 1, .top_p = 1, .seed = 3};
    options.top_k = 1;
    EXPECT_INT(reach(sampler, options, logits, V, reached), 1);
    EXPECT(reached[1]);
    options.top_k = 2; /* 1, 4 and 8 are equal: the lower ids come first */
    EXPECT_INT(reach(sampler, options, logits, V, reached), 2);
    EXPECT(reached[1] && reached[4]);
    options.top_k = 5;
    EXPECT_INT(reach(sampler, options, logits, V, reached), 5);
    EXPECT(reached[1] && reached[4] && reached[8] && reached[3] && reached[7]);
    for (options.top_k = 8; options.top_k < 12; options.top_k += 3) { /* a token with logit -inf is never drawn */
        EXPECT_INT(reach(sampler, options, logits, V, reached), 8);
        EXPECT(!reached[5]);
    }
    options.top_k = 0;
    EXPECT_INT(reach(sampler, options, logits, V, reached), 8);
    end_sampler(sampler);
}

static void top_p_leaves_the_shortest_beginning_that_reaches_it(void)
{
    enum { V = 4 };
    const float logits[V] = {logf(0.2f), logf(0.5f), logf(0.05f), logf(0.25f)};
    static const struct {
        double top_p;
        int n;
    } cases[] = {{0, 1}, {0.3, 1}, {0.499, 1}, {0.51, 2}, {0.74, 2}, {0.76, 3}, {0.94, 3}, {0.96, 4}, {1, 4}};
    static const int order[V] = {1, 3, 0, 2};
    bool reached[V];
    tess_sampler *sampler = make_sampler(V);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tess_sampling options = {.temperature = 1, .top_p = cases[i].top_p, .seed = 1};
        EXPECT_INT(reach(sampler, options, logits, V, reached), cases[i].n);
        for (int k = 0; k < V; k++)
            EXPECT(reached[order[k]] == (k < cases[i].n));
    }
    /* The two likeliest tokens have 0.75, and the first has more than half. */
    tess_sampling both = {.temperature = 1, .top_p = 0.6, .top_k = 2, .seed = 1};
    EXPECT_INT(reach(sampler, both, logits, V, reached), 1);
    EXPECT(reached[1]);
    end_sampler(sampler);
}

/* The draw by brute force: u walks down the sorted probabilities, or over all of them by ids where there is no limit,
 * for a vocabulary that is no power of 2. */
static int32_t draw_by_sorting(const float *logits, int n, const tess_sampling *o, double u)
{
    static int32_t order[2500];
    bool limited = (o->top_k > 0 && o->top_k < n) || o->top_p < 1 || o->min_p > 0;
    float top = -INFINITY;
    for (int i = 0; i < n; i++) {
        int k = i;
        for (; limited && k > 0 && logits[order[k - 1]] < logits[i]; k--)
            order[k] = order[k - 1];
        order[k] = i;
        top = logits[i] > top ? logits[i] : top;
    }
    if (o->top_k > 0 && o->top_k < n)
        n = (int)o->top_k;
    double total = 0, kept = 0;
    for (int i = 0; i < n; i++)
        total += exp(((double)logits[order[i]] - top) / o->temperature);
    int left = 0;
    while (left < n && (left == 0 || kept < o->top_p * total || o->top_p >= 1) &&
           exp(((double)logits[order[left]] - top) / o->temperature) >= o->min_p)
        kept += exp(((double)logits[order[left++]] - top) / o->temperature);
    double sum = 0;
    for (int i = 0; i < left; i++) {
        sum += exp(((double)logits[order[i]] - top) / o->temperature);
        if (u * kept < sum)
            return order[i];
    }
    return order[left - 1];
}

static void draws_are_those_of_a_sorted_vocabulary(void)
{
    enum { V = 2477 };
    static const tess_sampling options[] = {{1, 0, 1, 4},
                                            {0.8, 0, 0.95, 4},
                                            {0.5, 40, 1, 4},
                                            {3, 100, 0.5, 4},
                                            {2, V, 0.999, 4},
                                            {0.01, 0, 0.9, 4},
                                            {40, 0, 1, 4},
                                            {1.5, 0, 1, 4, .min_p = 0.02},
                                            {1.5, 30, 0.9, 4, .min_p = 0.05}};
    static float logits[V];
    tess_sampler *sampler = make_sampler(V);
    for (uint64_t i = 0; i < 60; i++) {
        fill_logits(logits, V, i / 10);
        for (size_t o = 0; o < sizeof(options) / sizeof(options[0]); o++) {
            double u = tess_rng_uniform_double(options[o].seed, TESS_RNG_SAMPLE, 2, i);
            EXPECT_INT(draw(sampler, options[o], logits, 2, i), draw_by_sorting(logits, V, &options[o], u));
        }
    }
    end_sampler(sampler);
}

static void company_and_threads_change_no_draw(void)
{
    enum { V = 5003, N = 37 };
    static float logits[N][V];
    static const tess_sampling options[] = {{1, 0, 1, 4}, {1, 20, 0.9, 4, .repetition_penalty = 1.3}, {.seed = 4}};
    for (uint64_t i = 0; i < N; i++)
        fill_logits(logits[i], V, i);
    for (size_t o = 0; o < 3; o++) {
        const int32_t text[] = {3, 9, 4711, 3};
        tess_draw all[N], alone;
        tess_sampler *sampler = make_sampler_with(3, V);
        for (int i = 0; i < N; i++)
            all[i] = (tess_draw){
                .logits = logits[i], .text = text, .n_text = 4, .id = (uint64_t)i, .position = (uint64_t)(5 * i)};
        EXPECT_OK(tess_sampler_draw(sampler, &options[o], all, N));
        end_sampler(sampler);
        sampler = make_sampler(V);
        for (int i = 0; i < N; i++) {
            alone = all[i];
            alone.token = -1;
            EXPECT_OK(tess_sampler_draw(sampler, &options[o], &alone, 1));
            EXPECT_INT(alone.token, all[i].token);
        }
        end_sampler(sampler);
    }
}

/* 53 bits reach what 24 would not: the last of very many equal tokens, and one next to a likely one. */
static void draws_reach_unlikely_tokens(void)
{
    enum { V = 70000 };
    static float logits[V];
    tess_sampler *sampler = make_sampler(V);
    const tess_sampling plain = {.temperature = 1, .top_p = 1, .seed = 5};
    int n_high = 0;
    for (uint64_t i = 0; i < 400; i++)
        n_high += draw(sampler, plain, logits, 0, i) >= V / 2;
    EXPECT(n_high > 150 && n_high < 250);
    for (int i = 0; i < V; i++)
        logits[i] = i == 1030 ? 0 : -INFINITY;
    for (uint64_t i = 0; i < 20; i++)
        EXPECT_INT(draw(sampler, plain, logits, 0, i), 1030);
    logits[V - 1] = -700; /* possible, and never drawn */
    for (uint64_t i = 0; i < 20; i++)
        EXPECT_INT(draw(sampler, plain, logits, 0, i), 1030);
    end_sampler(sampler);
}

static void a_draw_is_a_function_of_seed_stream_and_position(void)
{
    enum { V = 300 };
    float logits[V];
    int n_differ[3] = {0};
    fill_logits(logits, V, 1);
    tess_sampler *sampler = make_sampler(V), *other = NULL;
    EXPECT_OK(tess_sampler_create(test_mem(), threads, V, &other));
    for (uint64_t i = 0; i < 50; i++) {
        tess_sampling a = {.temperature = 2, .top_p = 1, .seed = 6}, b = {.temperature = 2, .top_p = 1, .seed = 7};
        int32_t token = draw(sampler, a, logits, 1, i);
        draw(other, b, logits, 9, 3 * i); /* earlier draws have no effect */
        EXPECT_INT(draw(other, a, logits, 1, i), token);
        n_differ[0] += draw(sampler, b, logits, 1, i) != token;
        n_differ[1] += draw(sampler, a, logits, 2, i) != token;
        n_differ[2] += draw(sampler, a, logits, 1, i + 50) != token;
    }
    for (int i = 0; i < 3; i++)
        EXPECT(n_differ[i] > 25);
    tess_sampler_destroy(&other);
    end_sampler(sampler);
}

static void repetition_penalty_makes_seen_tokens_less_likely(void)
{
    static const struct {
        float logits[3];
        int32_t seen[3];
        int64_t n_seen;
        double penalty;
        int32_t token;
    } rows[] = {{{2, 1.5f, -1}, {0}, 1, 1.5, 1},       {{2, 1.5f, -1}, {0}, 1, 1.3, 0},
                {{-1, -1.2f, -3}, {0}, 1, 1.3, 1},     {{-1, -1.2f, -3}, {0, 1, 0}, 3, 1.3, 0},
                {{2, 1.5f, -1}, {0}, 1, 1, 0},         {{2, 1.5f, -1}, {0}, 1, 0, 0},
                {{-INFINITY, -9, -9}, {1}, 1, 1.1, 2}, {{1, 2, -1}, {0}, 1, 0.4, 0}};
    tess_sampler *sampler = make_sampler(3);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const tess_sampling greedy = {.repetition_penalty = rows[i].penalty},
                            warm = {.temperature = 1e-3, .top_p = 1, .repetition_penalty = rows[i].penalty};
        tess_draw row = {.logits = rows[i].logits, .text = rows[i].seen, .n_text = rows[i].n_seen, .token = -1};
        EXPECT_OK(tess_sampler_draw(sampler, &greedy, &row, 1));
        EXPECT_INT(row.token, rows[i].token);
        EXPECT_OK(tess_sampler_draw(sampler, &warm, &row, 1));
        EXPECT_INT(row.token, rows[i].token);
    }
    end_sampler(sampler);
}

static void broken_logits_are_refused(void)
{
    float logits[] = {0, NAN, 1};
    tess_draw row = {.logits = logits};
    const tess_sampling greedy = {.top_p = 1}, warm = {.temperature = 1, .top_p = 1};
    tess_sampler *sampler = make_sampler(3);
    EXPECT_FAILS(tess_sampler_draw(sampler, &greedy, &row, 1), TESS_E_INVALID, "token 1 is nan");
    logits[1] = INFINITY;
    EXPECT_FAILS(tess_sampler_draw(sampler, &warm, &row, 1), TESS_E_INVALID, "token 1 is inf");
    for (int i = 0; i < 3; i++)
        logits[i] = -INFINITY;
    EXPECT_FAILS(tess_sampler_draw(sampler, &warm, &row, 1), TESS_E_INVALID, "all logits");
    logits[0] = 1e38f;
    const tess_sampling steep = {.top_p = 1, .repetition_penalty = 1e-3};
    row = (tess_draw){.logits = logits, .text = &(int32_t){0}, .n_text = 1};
    EXPECT_FAILS(tess_sampler_draw(sampler, &steep, &row, 1), TESS_E_INVALID, "makes a logit infinite");
    end_sampler(sampler);
}

static void a_vocabulary_of_one_token_gives_that_token(void)
{
    const float logit = -3;
    tess_sampler *sampler = make_sampler(1);
    EXPECT_INT(draw(sampler, (tess_sampling){.temperature = 1, .top_p = 0.5, .top_k = 5}, &logit, 0, 0), 0);
    EXPECT_INT(draw(sampler, (tess_sampling){.top_p = 1}, &logit, 0, 0), 0);
    end_sampler(sampler);
}

static void impossible_sampling_is_refused(void)
{
    static const struct {
        tess_sampling options;
        const char *message;
    } rows[] = {{{.temperature = -1, .top_p = 1}, "temperature of -1"},
                {{.temperature = NAN, .top_p = 1}, "temperature of nan"},
                {{.temperature = 1e-45, .top_p = 1}, "temperature of 1e-45"},
                {{.temperature = 1, .top_p = 1.5}, "top_p 1.5"},
                {{.temperature = 1, .top_p = 1, .top_k = -3}, "top_k -3"},
                {{.temperature = 1, .top_p = 1, .min_p = 2}, "min_p 2"},
                {{.temperature = 1, .top_p = 1, .repetition_penalty = -1}, "penalty of -1"},
                {{.temperature = 1, .top_p = 1, .top_k = 3, .exact = true}, "inexact"},
                {{.temperature = 1, .top_p = 0.9, .exact = true}, "inexact"},
                {{.temperature = 1, .top_p = 1, .min_p = 0.1, .exact = true}, "inexact"},
                {{.temperature = 1, .top_p = 1, .repetition_penalty = 1.1, .exact = true}, "inexact"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        EXPECT_FAILS(tess_sampling_check(&rows[i].options), TESS_E_INVALID, rows[i].message);
    const tess_sampling good = {.temperature = 0.7, .top_p = 1, .repetition_penalty = 1, .exact = true};
    EXPECT_OK(tess_sampling_check(&good));
    EXPECT(tess_sampling_inv_temperature(&good) == (float)(1 / 0.7));
    EXPECT(tess_sampling_inv_temperature(&(tess_sampling){.temperature = 0.7}) == 1);
    EXPECT(tess_sampling_inv_temperature(&(tess_sampling){.exact = true}) == 1);
}

static const test_case cases[] = {
    CASE(temperature_zero_takes_the_likeliest_and_of_equals_the_lowest_id),
    CASE(draws_follow_the_probabilities),
    CASE(top_k_leaves_the_k_likeliest),
    CASE(top_p_leaves_the_shortest_beginning_that_reaches_it),
    CASE(draws_are_those_of_a_sorted_vocabulary),
    CASE(company_and_threads_change_no_draw),
    CASE(draws_reach_unlikely_tokens),
    CASE(impossible_sampling_is_refused),
    CASE(a_draw_is_a_function_of_seed_stream_and_position),
    CASE(repetition_penalty_makes_seen_tokens_less_likely),
    CASE(broken_logits_are_refused),
    CASE(a_vocabulary_of_one_token_gives_that_token),
};
TEST_MAIN(cases)
