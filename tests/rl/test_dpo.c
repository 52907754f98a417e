/* Losses of preference pairs, against torch's autograd and trl. */
#include "rl/algo/rl_dpo.h"

#include "rl_fixture.h"

enum { ROWS = RL_FIXTURE_ROWS };

static void expect_case(const json_t *of)
{
    const char *name = rl_fixture_text(of, "name"), *kind = rl_fixture_text(of, "kind");
    const json_t *want = rl_fixture_get(of, "want");
    const tess_dpo_options options = {.kind = strcmp(kind, "ipo") == 0     ? TESS_DPO_IPO
                                              : strcmp(kind, "hinge") == 0 ? TESS_DPO_HINGE
                                                                           : TESS_DPO_SIGMOID,
                                      .beta = rl_fixture_number(of, "beta"),
                                      .label_smoothing = rl_fixture_number(of, "label_smoothing")};
    int32_t cu[ROWS];
    uint8_t mask[ROWS];
    float logprob[ROWS], reference[ROWS], dlogprob[ROWS];
    double slope[ROWS];
    static tess_dpo_sums sums;
    tess_metric metrics[TESS_DPO_METRICS];
    tess_dpo_rows rows = {.cu = cu, .mask = mask, .reference = reference};
    EXPECT_OK(tess_dpo_options_check(&options));
    rows.n_pairs = (rl_fixture_ints(of, "cu", cu) - 1) / 2;
    rows.n_rows = rl_fixture_mask(of, "mask", mask);
    rl_fixture_floats(of, "logprob", logprob);
    rl_fixture_floats(of, "reference", reference);
    memset(&sums, 0, sizeof(sums));
    EXPECT_OK(tess_dpo_grade(&options, &rows, logprob, dlogprob, &sums));
    EXPECT_INT(sums.n_pairs, rows.n_pairs);
    tess_dpo_metrics(&sums, metrics);
    rl_expect_near(name, metrics[0].name, 0, metrics[0].value, rl_fixture_number(want, "loss"));
    rl_expect_near(name, metrics[1].name, 0, metrics[1].value, rl_fixture_number(want, "chosen"));
    rl_expect_near(name, metrics[2].name, 0, metrics[2].value, rl_fixture_number(want, "rejected"));
    rl_expect_near(name, metrics[3].name, 0, metrics[3].value,
                   rl_fixture_number(want, "chosen") - rl_fixture_number(want, "rejected"));
    rl_expect_near(name, metrics[4].name, 0, metrics[4].value, rl_fixture_number(want, "accuracy"));
    rl_fixture_doubles(want, "dlogprob", slope);
    for (int row = 0; row < (int)rows.n_rows; row++)
        rl_expect_near(name, "dlogprob", row, dlogprob[row] / (double)rows.n_pairs, slope[row]);
}

static void losses_and_gradients_are_those_of_torch_and_trl(void)
{
    json_t *document = rl_fixture_load("dpo.json");
    EXPECT_INT(json_array_size(document), 7);
    for (size_t i = 0; i < json_array_size(document); i++)
        expect_case(json_array_get(document, i));
    json_decref(document);
}

static void far_margins_neither_overflow_nor_give_nan(void)
{
    /* beta h = +-1000: log s has no overflow, and its derivative is 0 or beta */
    const int32_t cu[] = {0, 1, 2};
    const uint8_t mask[] = {1, 1};
    const tess_dpo_options options = {.kind = TESS_DPO_SIGMOID, .beta = 1};
    const tess_dpo_rows rows = {.n_rows = 2, .n_pairs = 1, .cu = cu, .mask = mask};
    float logprob[2] = {-1, -1001}, dlogprob[2];
    static tess_dpo_sums sums;
    EXPECT_OK(tess_dpo_grade(&options, &rows, logprob, dlogprob, &sums));
    EXPECT(tess_exact_value(&sums.sum[TESS_DPO_SUM_LOSS]) == 0 && dlogprob[0] == 0 && dlogprob[1] == 0);
    logprob[0] = -2001;
    memset(&sums, 0, sizeof(sums));
    EXPECT_OK(tess_dpo_grade(&options, &rows, logprob, dlogprob, &sums));
    EXPECT(tess_exact_value(&sums.sum[TESS_DPO_SUM_LOSS]) == 1000 && dlogprob[0] == -1 && dlogprob[1] == 1);
    EXPECT_INT(sums.n_right, 0);
    logprob[1] = NAN;
    EXPECT_FAILS(tess_dpo_grade(&options, &rows, logprob, dlogprob, &sums), TESS_E_NOT_FINITE, "pair 0");
}

static void sums_of_ranks_add_to_the_bits_of_one(void)
{
    const int32_t cu[] = {0, 2, 3, 5, 6};
    const uint8_t mask[] = {1, 1, 1, 0, 1, 1};
    const float logprob[] = {-1.3f, -0.2f, -0.7f, -3, -0.4f, -2.1f}, reference[] = {-1, -0.4f, -0.5f, -2, -0.3f, -1.7f};
    const tess_dpo_options options = {.kind = TESS_DPO_SIGMOID, .beta = 0.3};
    static tess_dpo_sums all, part[2];
    static int64_t words[2][TESS_DPO_SUM_WORDS], want[TESS_DPO_SUM_WORDS];
    float dlogprob[6];
    tess_dpo_rows rows = {.n_rows = 6, .n_pairs = 2, .cu = cu, .mask = mask, .reference = reference};
    EXPECT_OK(tess_dpo_grade(&options, &rows, logprob, dlogprob, &all));
    rows = (tess_dpo_rows){.n_rows = 3, .n_pairs = 1, .cu = cu, .mask = mask, .reference = reference};
    EXPECT_OK(tess_dpo_grade(&options, &rows, logprob, dlogprob, &part[0]));
    rows = (tess_dpo_rows){
        .n_rows = 3, .n_pairs = 1, .cu = (const int32_t[]){0, 2, 3}, .mask = mask + 3, .reference = reference + 3};
    EXPECT_OK(tess_dpo_grade(&options, &rows, logprob + 3, dlogprob, &part[1]));
    tess_dpo_sums_pack(&part[0], words[0]);
    tess_dpo_sums_pack(&part[1], words[1]);
    for (int i = 0; i < TESS_DPO_SUM_WORDS; i++)
        words[0][i] += words[1][i];
    tess_dpo_sums_unpack(words[0], &part[0]);
    tess_dpo_sums_pack(&part[0], words[0]);
    tess_dpo_sums_pack(&all, want);
    EXPECT_SAME(words[0], want, TESS_DPO_SUM_WORDS);
    EXPECT_INT(part[0].n_pairs, 2);
}

static void options_out_of_range_are_named(void)
{
    EXPECT_FAILS(tess_dpo_options_check(&(tess_dpo_options){.beta = 0}), TESS_E_INVALID, "beta is 0");
    EXPECT_FAILS(tess_dpo_options_check(&(tess_dpo_options){.beta = 1, .label_smoothing = 0.5}), TESS_E_INVALID,
                 "[0, 0.5)");
    EXPECT_FAILS(tess_dpo_options_check(&(tess_dpo_options){.kind = TESS_DPO_IPO, .beta = 1, .label_smoothing = 0.1}),
                 TESS_E_INVALID, "sigmoid loss only");
}

static void the_margin_rises_under_every_loss(void)
{
    /* Descent on the log-probabilities themselves: after each step the margin is larger. */
    const int32_t cu[] = {0, 2, 4};
    const uint8_t mask[] = {1, 1, 1, 1};
    float logprob[] = {-2, -1, -1.5f, -0.5f}, dlogprob[4];
    const float reference[] = {-2, -1, -1.5f, -0.5f};
    const tess_dpo_rows rows = {.n_rows = 4, .n_pairs = 1, .cu = cu, .mask = mask, .reference = reference};
    for (int kind = TESS_DPO_SIGMOID; kind <= TESS_DPO_HINGE; kind++) {
        const tess_dpo_options options = {.kind = (tess_dpo_kind)kind, .beta = 0.1};
        double margin = 0;
        memcpy(logprob, reference, sizeof(logprob));
        for (int step = 0; step < 20; step++) {
            static tess_dpo_sums sums;
            tess_metric metrics[TESS_DPO_METRICS];
            memset(&sums, 0, sizeof(sums));
            EXPECT_OK(tess_dpo_grade(&options, &rows, logprob, dlogprob, &sums));
            tess_dpo_metrics(&sums, metrics);
            EXPECT(step == 0 ? metrics[3].value == 0 : metrics[3].value > margin);
            margin = metrics[3].value;
            for (int row = 0; row < 4; row++)
                logprob[row] -= 0.05f * dlogprob[row];
        }
    }
}

static const test_case cases[] = {
    CASE(losses_and_gradients_are_those_of_torch_and_trl),
    CASE(far_margins_neither_overflow_nor_give_nan),
    CASE(sums_of_ranks_add_to_the_bits_of_one),
    CASE(options_out_of_range_are_named),
    CASE(the_margin_rises_under_every_loss),
};
TEST_MAIN(cases)
