/* validation.patience: when a run ends early, and what a resumed run knows. */
#include "train/text/early_stop.h"

#include <math.h>
#include <stdlib.h>

#include "support/test.h"

static tess_validation_report whole(int64_t step, double loss)
{
    return (tess_validation_report){.step = step, .outcome = TESS_VALIDATION_WHOLE, .loss = loss};
}

static bool judge(tess_early_stop *s, int64_t step, double loss, double min_delta)
{
    const tess_validation_report report = whole(step, loss);
    return tess_early_stop_judge(s, &report, min_delta);
}

static void patience_counts_evaluations_that_are_no_better_in_a_row(void)
{
    /* 3.0* 2.5* 2.6 2.45* 2.45 2.44 2.46 with min_delta 0.02: the last three are no better than 2.45. */
    static const double losses[] = {3.0, 2.5, 2.6, 2.45, 2.45, 2.44, 2.46};
    static const bool better[] = {true, true, false, true, false, false, false};
    static const int64_t worse[] = {0, 0, 1, 0, 1, 2, 3};
    tess_early_stop s = tess_early_stop_begin();
    EXPECT(!tess_early_stop_is_due(&s, 1));
    for (int i = 0; i < 7; i++) {
        EXPECT_INT(judge(&s, 10 * (i + 1), losses[i], 0.02), better[i]);
        EXPECT_INT(s.n_worse, worse[i]);
        EXPECT_INT(tess_early_stop_is_due(&s, 3), i == 6);
        EXPECT(!tess_early_stop_is_due(&s, 0));
    }
    EXPECT_INT(s.best_step, 40);
    EXPECT(s.best_loss == 2.45);
}

static void what_is_no_whole_evaluation_does_not_count_and_a_repeated_one_counts_once(void)
{
    tess_early_stop s = tess_early_stop_begin();
    tess_validation_report partial = whole(1, 0.1), missing = whole(2, 0);
    partial.outcome = TESS_VALIDATION_PARTIAL;
    missing.outcome = TESS_VALIDATION_MISSING;
    EXPECT(!tess_early_stop_judge(&s, &partial, 0) && !tess_early_stop_judge(&s, &missing, 0));
    EXPECT_INT(s.best_step, -1);
    EXPECT(judge(&s, 3, 2, 0));
    EXPECT(judge(&s, 3, 2, 0)); /* again, as the best: its model is written again */
    EXPECT(!judge(&s, 4, 2.5, 0));
    EXPECT(!judge(&s, 4, 2.5, 0));
    EXPECT_INT(s.n_worse, 1);
    EXPECT(!judge(&s, 5, NAN, 0));
    EXPECT_INT(s.n_worse, 2);
    EXPECT(judge(&s, 6, 1.5, 0));
    EXPECT_INT(s.n_worse, 0);
}

static void it_comes_back_from_a_checkpoint_and_from_a_place_to_the_bit(void)
{
    tess_early_stop s = tess_early_stop_begin(), back;
    int64_t words[TESS_EARLY_STOP_WORDS];
    for (int i = 0; i < 5; i++) {
        json_t *json = tess_early_stop_to_json(&s);
        char *text = json_dumps(json, 0);
        json_t *read = json_loads(text, 0, NULL);
        back = tess_early_stop_from_json(read);
        tess_early_stop_pack(&s, words);
        const tess_early_stop unpacked = tess_early_stop_unpack(words);
        EXPECT_SAME(&unpacked.best_loss, &s.best_loss, 1);
        EXPECT_SAME(&back.best_loss, &s.best_loss, 1);
        EXPECT(back.best_step == s.best_step && back.last_step == s.last_step && back.n_worse == s.n_worse);
        EXPECT(unpacked.best_step == s.best_step && unpacked.last_step == s.last_step && unpacked.n_worse == s.n_worse);
        free(text);
        json_decref(json);
        json_decref(read);
        judge(&s, 7 * (i + 1), 1.0 / (3 + i % 3), 0);
    }
    back = tess_early_stop_from_json(NULL); /* an older checkpoint has none */
    EXPECT_INT(back.best_step, -1);
}

static const test_case cases[] = {
    CASE(patience_counts_evaluations_that_are_no_better_in_a_row),
    CASE(what_is_no_whole_evaluation_does_not_count_and_a_repeated_one_counts_once),
    CASE(it_comes_back_from_a_checkpoint_and_from_a_place_to_the_bit),
};
TEST_MAIN(cases)
