/* Advantages of samples and tokens, against verl and torch, and where there is little to compare. */
#include "rl/algo/rl_advantage.h"

#include "base/core/rng.h"
#include "rl/algo/rl_moments.h"
#include "rl_fixture.h"

enum { ROWS = RL_FIXTURE_ROWS };

static void expect_kinds(const json_t *of)
{
    static const struct {
        tess_advantage_kind kind;
        const char *want;
    } kinds[] = {{TESS_ADV_GRPO, "grpo"},
                 {TESS_ADV_DR_GRPO, "dr_grpo"},
                 {TESS_ADV_REINFORCE_PP_BASELINE, "dr_grpo"},
                 {TESS_ADV_RLOO, "rloo"},
                 {TESS_ADV_BATCH_STD, "batch_std"}};
    double reward[ROWS], sizes[ROWS], got[ROWS], want[ROWS];
    int64_t group[ROWS + 1] = {0};
    int n = rl_fixture_doubles(of, "reward", reward), n_groups = rl_fixture_doubles(of, "sizes", sizes);
    for (int g = 0; g < n_groups; g++)
        group[g + 1] = group[g] + (int64_t)sizes[g];
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        EXPECT_OK(
            tess_group_advantages(kinds[k].kind, rl_fixture_number(of, "eps"), reward, NULL, n, group, n_groups, got));
        rl_fixture_doubles(rl_fixture_get(of, "want"), kinds[k].want, want);
        for (int i = 0; i < n; i++)
            rl_expect_near(rl_fixture_text(of, "name"), kinds[k].want, i, got[i], want[i]);
    }
}

static void advantages_of_groups_are_those_of_verl(void)
{
    json_t *document = rl_fixture_load("advantage.json");
    EXPECT_INT(json_array_size(document), 2);
    for (size_t i = 0; i < json_array_size(document); i++)
        expect_kinds(json_array_get(document, i));
    json_decref(document);
}

static const tess_advantage_kind all_kinds[] = {TESS_ADV_GRPO,         TESS_ADV_DR_GRPO,
                                                TESS_ADV_RLOO,         TESS_ADV_BATCH_STD,
                                                TESS_ADV_REINFORCE_PP, TESS_ADV_REINFORCE_PP_BASELINE,
                                                TESS_ADV_GAE};

static void a_missing_reward_is_as_good_as_no_sample(void)
{
    /* The same as if the samples without a reward were not there. */
    const double with[] = {1, NAN, 0, 0.5, INFINITY, 2, NAN, NAN}, without[] = {1, 0, 0.5, 2};
    const bool scored[] = {true, false, true, true, false, true, false, false};
    const int64_t group[] = {0, 4, 6, 8}, dense_group[] = {0, 3, 4, 4};
    for (size_t k = 0; k < sizeof(all_kinds) / sizeof(all_kinds[0]); k++) {
        double got[8], want[4];
        EXPECT_OK(tess_group_advantages(all_kinds[k], 1e-6, with, scored, 8, group, 3, got));
        EXPECT_OK(tess_group_advantages(all_kinds[k], 1e-6, without, NULL, 4, dense_group, 3, want));
        for (int i = 0, j = 0; i < 8; i++)
            EXPECT(got[i] == (scored[i] ? want[j++] : 0));
    }
    double got[8];
    EXPECT_FAILS(tess_group_advantages(TESS_ADV_GRPO, 1e-6, with, NULL, 8, group, 3, got), TESS_E_NOT_FINITE,
                 "sample 1 is");
    EXPECT_FAILS(tess_group_advantages(TESS_ADV_GRPO, 1e-6, with, scored, 7, group, 3, got), TESS_E_INVALID,
                 "samples 0 to 8 of 7");
    const int64_t backwards[] = {0, 6, 4, 8};
    EXPECT_FAILS(tess_group_advantages(TESS_ADV_GRPO, 1e-6, with, scored, 8, backwards, 3, got), TESS_E_INVALID,
                 "group 1 ends");
}

static void groups_of_one_keep_their_reward_and_equal_ones_give_zero(void)
{
    const int64_t one[] = {0, 1}, none[] = {0};
    double reward = 0.7, got = 7;
    for (size_t k = 0; k < sizeof(all_kinds) / sizeof(all_kinds[0]); k++) {
        EXPECT_OK(tess_group_advantages(all_kinds[k], 1e-6, &reward, NULL, 1, one, 1, &got));
        EXPECT(got == 0.7);
        EXPECT_OK(tess_group_advantages(all_kinds[k], 1e-6, &reward, (const bool[]){false}, 1, one, 1, &got));
        EXPECT(got == 0);
        EXPECT_OK(tess_group_advantages(all_kinds[k], 1e-6, NULL, NULL, 0, none, 0, NULL));
    }
    const double tenths[] = {0.1, 0.1, 0.1}; /* their rounded mean may be another number */
    const int64_t three[] = {0, 3};
    double zero[3] = {7, 7, 7};
    EXPECT_OK(tess_group_advantages(TESS_ADV_GRPO, 0, tenths, NULL, 3, three, 1, zero));
    EXPECT(zero[0] == 0 && zero[1] == 0 && zero[2] == 0);
}

static void long_responses_are_penalised_linearly(void)
{
    EXPECT(tess_overlong_penalty(100, 512, 128, 1) == 0 && tess_overlong_penalty(384, 512, 128, 1) == 0);
    EXPECT(tess_overlong_penalty(448, 512, 128, 1) == -0.5 && tess_overlong_penalty(512, 512, 128, 2) == -2);
}

/* A step of tokens from the fixture. */
typedef struct token_step {
    int32_t cu[ROWS];
    int64_t n_seqs;
    uint8_t mask[ROWS];
    int n;
    double terminal[ROWS];
    float logprob[ROWS], reference[ROWS], value[ROWS], reward[ROWS];
    double beta, gamma, lambda, gamma_to_go;
} token_step;

static void read_step(const json_t *document, token_step *s)
{
    s->n_seqs = rl_fixture_ints(document, "cu", s->cu) - 1;
    s->n = rl_fixture_mask(document, "mask", s->mask);
    rl_fixture_doubles(document, "terminal", s->terminal);
    rl_fixture_floats(document, "logprob", s->logprob);
    rl_fixture_floats(document, "reference", s->reference);
    rl_fixture_floats(document, "value", s->value);
    s->beta = rl_fixture_number(document, "beta");
    s->gamma = rl_fixture_number(document, "gamma");
    s->lambda = rl_fixture_number(document, "lambda");
    s->gamma_to_go = rl_fixture_number(document, "gamma_to_go");
    memset(s->reward, 0xff, sizeof(s->reward));
    tess_token_rewards(s->beta, TESS_KL_K1, s->n_seqs, s->cu, s->mask, s->terminal, s->logprob, s->reference,
                       s->reward);
}

static void expect_tokens(const json_t *document, const char *what, const float *got, int n)
{
    double want[ROWS];
    EXPECT_INT(rl_fixture_doubles(rl_fixture_get(document, "want"), what, want), n);
    for (int row = 0; row < n; row++)
        rl_expect_near("tokens", what, row, got[row], want[row]);
}

static void whiten(const token_step *s, float *x)
{
    static tess_moments moments;
    memset(&moments, 0, sizeof(moments));
    tess_moments_add_rows(&moments, x, s->mask, s->n);
    tess_whiten(&moments, 1e-8, s->mask, x, s->n);
}

static void advantages_of_tokens_are_those_of_verl(void)
{
    static token_step s;
    float a[ROWS], ret[ROWS];
    json_t *document = rl_fixture_load("token.json");
    read_step(document, &s);
    expect_tokens(document, "reward", s.reward, s.n);
    tess_gae(s.gamma, s.lambda, s.n_seqs, s.cu, s.mask, s.reward, s.value, a, ret);
    expect_tokens(document, "ret", ret, s.n);
    whiten(&s, a);
    expect_tokens(document, "gae_whitened", a, s.n);
    tess_returns_to_go(s.gamma_to_go, s.n_seqs, s.cu, s.mask, s.reward, a);
    expect_tokens(document, "to_go", a, s.n);
    whiten(&s, a);
    expect_tokens(document, "to_go_whitened", a, s.n);
    const int64_t group[] = {0, 4};
    double advantage[4];
    EXPECT_OK(tess_group_advantages(TESS_ADV_REINFORCE_PP_BASELINE, 0, s.terminal, NULL, 4, group, 1, advantage));
    tess_token_spread(s.n_seqs, s.cu, s.mask, advantage, a);
    whiten(&s, a);
    expect_tokens(document, "baseline", a, s.n);
    json_decref(document);
}

/* slime's ones * reward - kl_coef * kl, by token: none of it is passed on to the tokens before. */
static void a_penalty_is_of_its_token_alone(void)
{
    const uint8_t mask[] = {1, 0, 1, 1};
    const float logprob[] = {-1, -9, -0.5f, -2}, reference[] = {-1.5f, 7, -0.5f, -1};
    EXPECT(tess_sequence_kl(TESS_KL_K1, 4, mask, logprob, reference) == 0.5 + 0 - 1);
    EXPECT(tess_sequence_kl(TESS_KL_K2, 4, mask, logprob, reference) == 0.125 + 0 + 0.5);
    EXPECT(tess_sequence_kl(TESS_KL_K2, 1, mask + 1, logprob + 1, reference + 1) == 0);
}

static void the_output_of_a_tool_takes_no_time(void)
{
    /* A tool's text is no moment in time: all other rows have the same numbers if its rows are left out. */
    const int32_t cu[] = {0, 6}, dense_cu[] = {0, 3};
    const uint8_t mask[] = {0, 1, 0, 0, 1, 1}, ones[] = {1, 1, 1};
    const float reward[] = {9, 1, 9, 9, -0.5f, 2}, dense_reward[] = {1, -0.5f, 2};
    const float value[] = {9, 0.5f, 9, 9, 0.25f, 1}, dense_value[] = {0.5f, 0.25f, 1};
    float a[6], ret[6], dense_a[3], dense_ret[3];
    tess_gae(0.9, 0.8, 1, cu, mask, reward, value, a, ret);
    tess_gae(0.9, 0.8, 1, dense_cu, ones, dense_reward, dense_value, dense_a, dense_ret);
    const float want_a[] = {0, dense_a[0], 0, 0, dense_a[1], dense_a[2]};
    const float want_ret[] = {0, dense_ret[0], 0, 0, dense_ret[1], dense_ret[2]};
    EXPECT_SAME(a, want_a, 6);
    EXPECT_SAME(ret, want_ret, 6);
    /* by hand: delta_2 = 2 - 1 = 1; delta_1 = -0.5 + 0.9 - 0.25 = 0.15; delta_0 = 1 + 0.225 - 0.5 = 0.725 */
    EXPECT(fabs(dense_a[2] - 1) < 1e-7 && fabs(dense_a[1] - (0.15 + 0.72)) < 1e-7);
    EXPECT(fabs(dense_a[0] - (0.725 + 0.72 * 0.87)) < 1e-7 && fabs(dense_ret[0] - (0.725 + 0.72 * 0.87 + 0.5)) < 1e-6);
    tess_returns_to_go(0.5, 1, cu, mask, reward, ret);
    EXPECT(ret[5] == 2 && ret[4] == 0.5f && ret[1] == 1.25f && ret[0] == 0 && ret[2] == 0);
    /* the terminal reward is at the last response token, and nowhere in a sequence without one */
    const int32_t two[] = {0, 4, 6};
    const uint8_t some[] = {1, 1, 0, 0, 0, 0};
    tess_token_rewards(1, TESS_KL_K1, 2, two, some, (const double[]){3, 5}, NULL, NULL, ret);
    EXPECT(ret[0] == 0 && ret[1] == 3 && ret[2] == 0 && ret[3] == 0 && ret[4] == 0 && ret[5] == 0);
}

static void moments_of_ranks_are_the_bits_of_one(void)
{
    enum { N = 1000 };
    static float x[N];
    static tess_moments all, part[3];
    static int64_t words[TESS_MOMENTS_WORDS], total[TESS_MOMENTS_WORDS];
    for (uint64_t i = 0; i < N; i++)
        x[i] = 1000 + tess_rng_normal(9, TESS_RNG_TEST, 0, i);
    tess_moments_add_rows(&all, x, NULL, N);
    for (int i = N - 1; i >= 0; i--)
        tess_moments_add(&part[i % 3], x[i]);
    for (int r = 0; r < 3; r++) {
        tess_moments_pack(&part[r], words);
        for (int i = 0; i < TESS_MOMENTS_WORDS; i++)
            total[i] += words[i];
    }
    tess_moments_unpack(total, &part[0]);
    EXPECT(part[0].n == N && tess_moments_mean(&part[0]) == tess_moments_mean(&all));
    EXPECT(tess_moments_variance(&part[0]) == tess_moments_variance(&all));
    double mean = 0, squares = 0;
    for (int i = 0; i < N; i++)
        mean += x[i] / (double)N;
    for (int i = 0; i < N; i++)
        squares += (x[i] - mean) * (x[i] - mean) / (N - 1);
    EXPECT(fabs(tess_moments_variance(&all) / squares - 1) < 1e-9);
    tess_whiten(&all, 0, NULL, x, N);
    mean = 0;
    for (int i = 0; i < N; i++)
        mean += x[i] / (double)N;
    EXPECT(fabs(mean) < 1e-6);
}

static void whitening_of_little_is_no_nan(void)
{
    static tess_moments moments;
    float one[] = {5}, equal[] = {2, 2}, unseen[] = {1, 9, 3};
    tess_whiten(&moments, 0, NULL, one, 1);
    EXPECT(one[0] == 5 && tess_moments_mean(&moments) == 0 && tess_moments_variance(&moments) == 0);
    tess_moments_add(&moments, 5);
    tess_whiten(&moments, 0, NULL, one, 1);
    EXPECT(one[0] == 5);
    memset(&moments, 0, sizeof(moments));
    tess_moments_add_rows(&moments, equal, NULL, 2);
    tess_whiten(&moments, 0, NULL, equal, 2);
    EXPECT(equal[0] == 0 && equal[1] == 0);
    memset(&moments, 0, sizeof(moments));
    const uint8_t mask[] = {1, 0, 1};
    tess_moments_add_rows(&moments, unseen, mask, 3);
    tess_whiten(&moments, 0, mask, unseen, 3);
    EXPECT(unseen[1] == 9 && fabs(unseen[0] + 1 / sqrt(2)) < 1e-7 && fabs(unseen[2] - 1 / sqrt(2)) < 1e-7);
}

static const test_case cases[] = {
    CASE(advantages_of_groups_are_those_of_verl),
    CASE(a_missing_reward_is_as_good_as_no_sample),
    CASE(groups_of_one_keep_their_reward_and_equal_ones_give_zero),
    CASE(long_responses_are_penalised_linearly),
    CASE(advantages_of_tokens_are_those_of_verl),
    CASE(a_penalty_is_of_its_token_alone),
    CASE(the_output_of_a_tool_takes_no_time),
    CASE(moments_of_ranks_are_the_bits_of_one),
    CASE(whitening_of_little_is_no_nan),
};
TEST_MAIN(cases)
