/* The value loss against torch and verl, and a critic that learns. */
#include "rl/algo/rl_value.h"

#include "base/core/rng.h"
#include "rl/algo/rl_advantage.h"
#include "rl_fixture.h"

enum { ROWS = RL_FIXTURE_ROWS };

static void expect_case(const json_t *of)
{
    const json_t *want = rl_fixture_get(of, "want");
    double clip = rl_fixture_number(of, "clip"), slope[ROWS];
    uint8_t mask[ROWS];
    float value[ROWS], old_value[ROWS], ret[ROWS], dvalue[ROWS];
    static tess_value_sums sums;
    tess_metric metrics[TESS_VALUE_METRICS];
    char name[32];
    snprintf(name, sizeof(name), "clip %g", clip);
    int n = rl_fixture_mask(of, "mask", mask);
    rl_fixture_floats(of, "value", value);
    rl_fixture_floats(of, "old", old_value);
    rl_fixture_floats(of, "ret", ret);
    rl_fixture_doubles(want, "dvalue", slope);
    memset(&sums, 0, sizeof(sums));
    EXPECT_OK(tess_value_grade(clip, mask, value, clip > 0 ? old_value : NULL, ret, n, dvalue, &sums));
    tess_value_metrics(&sums, metrics);
    rl_expect_near(name, metrics[0].name, 0, metrics[0].value, rl_fixture_number(want, "loss"));
    rl_expect_near(name, metrics[1].name, 0, metrics[1].value, rl_fixture_number(want, "clipfrac"));
    rl_expect_near(name, metrics[4].name, 0, metrics[4].value, rl_fixture_number(want, "explained"));
    for (int row = 0; row < n; row++)
        rl_expect_near(name, "dvalue", row, dvalue[row] / (double)sums.ret.n, slope[row]);
}

static void losses_and_gradients_are_those_of_torch_and_verl(void)
{
    json_t *document = rl_fixture_load("value.json");
    EXPECT_INT(json_array_size(document), 3);
    for (size_t i = 0; i < json_array_size(document); i++)
        expect_case(json_array_get(document, i));
    json_decref(document);
}

static void sums_of_ranks_add_to_the_bits_of_one(void)
{
    uint8_t mask[ROWS];
    float value[ROWS], old_value[ROWS], ret[ROWS], dvalue[ROWS], again[ROWS];
    static tess_value_sums all, part[3];
    static int64_t words[TESS_VALUE_SUM_WORDS], total[TESS_VALUE_SUM_WORDS];
    for (uint64_t i = 0; i < ROWS; i++) {
        mask[i] = i % 3 != 1;
        value[i] = tess_rng_normal(1, TESS_RNG_TEST, 0, i);
        old_value[i] = value[i] + 0.3f * tess_rng_normal(1, TESS_RNG_TEST, 1, i);
        ret[i] = tess_rng_normal(1, TESS_RNG_TEST, 2, i);
    }
    EXPECT_OK(tess_value_grade(0.2, mask, value, old_value, ret, ROWS, dvalue, &all));
    for (int begin = 0, i = 0; begin < ROWS; begin += 7, i++) {
        int n = begin + 7 < ROWS ? 7 : ROWS - begin;
        EXPECT_OK(tess_value_grade(0.2, mask + begin, value + begin, old_value + begin, ret + begin, n, again + begin,
                                   &part[i % 3]));
    }
    for (int r = 0; r < 3; r++) {
        tess_value_sums_pack(&part[r], words);
        for (int i = 0; i < TESS_VALUE_SUM_WORDS; i++)
            total[i] += words[i];
    }
    tess_value_sums_unpack(total, &part[0]);
    tess_value_sums_pack(&part[0], words);
    tess_value_sums_pack(&all, total);
    EXPECT_SAME(again, dvalue, ROWS);
    EXPECT_SAME(words, total, TESS_VALUE_SUM_WORDS);
    EXPECT(tess_explained_variance(&part[0]) == tess_explained_variance(&all) && all.n_clipped > 0);
}

static void explained_variance_is_1_when_perfect_and_0_without_variance(void)
{
    static tess_value_sums sums;
    const uint8_t mask[] = {1, 1};
    float dvalue[2];
    EXPECT(tess_explained_variance(&sums) == 0);
    EXPECT_FAILS(tess_value_grade(0, mask, (const float[]){0, NAN}, NULL, (const float[]){0, 0}, 2, dvalue, &sums),
                 TESS_E_NOT_FINITE, "row 1");
    memset(&sums, 0, sizeof(sums));
    EXPECT_OK(tess_value_grade(0, mask, (const float[]){1, 2}, NULL, (const float[]){1, 2}, 2, dvalue, &sums));
    EXPECT(tess_explained_variance(&sums) == 1);
    memset(&sums, 0, sizeof(sums));
    EXPECT_OK(tess_value_grade(0, mask, (const float[]){1, 2}, NULL, (const float[]){3, 3}, 2, dvalue, &sums));
    EXPECT(tess_explained_variance(&sums) == 0);
}

/* A walk of 8 steps over two states, whose value is linear in features of the step: PPO's critic fits it. */
static void a_critic_explains_the_returns_after_some_steps(void)
{
    enum { EPISODES = 8, STEPS = 8, N = EPISODES * STEPS };
    int32_t cu[EPISODES + 1];
    uint8_t mask[N];
    float reward[N], value[N], old_value[N], advantage[N], ret[N], dvalue[N];
    double weight[STEPS] = {0}, first = 0, explained = 0;
    for (int e = 0; e <= EPISODES; e++)
        cu[e] = e * STEPS;
    for (int step = 0; step < 200; step++) {
        for (int i = 0; i < N; i++) {
            mask[i] = 1;
            reward[i] = 1 + 0.1f * tess_rng_normal(3, TESS_RNG_TEST, (uint64_t)step, (uint64_t)i);
            value[i] = old_value[i] = (float)weight[i % STEPS];
        }
        tess_gae(0.99, 0.95, EPISODES, cu, mask, reward, value, advantage, ret);
        static tess_value_sums sums;
        memset(&sums, 0, sizeof(sums));
        EXPECT_OK(tess_value_grade(0.5, mask, value, old_value, ret, N, dvalue, &sums));
        explained = tess_explained_variance(&sums);
        first = step == 0 ? explained : first;
        for (int i = 0; i < N; i++)
            weight[i % STEPS] -= 0.2 * dvalue[i] / EPISODES;
    }
    if (!(first < 0.1 && explained > 0.95))
        test_fail(__FILE__, __LINE__, "explained variance went from %g to %g", first, explained);
    double left = 0; /* true values: 1 + 0.99 (1 + 0.99 (...)) */
    for (int t = STEPS - 1; t >= 0; t--) {
        left = 1 + 0.99 * left;
        EXPECT(fabs(weight[t] - left) < 0.3);
    }
}

static const test_case cases[] = {
    CASE(losses_and_gradients_are_those_of_torch_and_verl),
    CASE(sums_of_ranks_add_to_the_bits_of_one),
    CASE(explained_variance_is_1_when_perfect_and_0_without_variance),
    CASE(a_critic_explains_the_returns_after_some_steps),
};
TEST_MAIN(cases)
