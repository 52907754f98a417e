/* Choices of streams that are kept and shown, in torchrun's syntax. */
#include "control/launch/output/output_plan.h"
#include "support/test.h"

/* Returns what is kept and shown of a rank: 10 * kept + shown. */
static int choose(const char *redirects, const char *tee, const char *filter, int local)
{
    const tess_output_plan plan = {.folder = "d", .redirects = redirects, .tee = tee, .filter = filter};
    EXPECT_OK(tess_output_plan_check(&plan));
    const tess_output_choice choice = tess_output_choose(&plan, local, 8 + local);
    return 10 * choice.kept + choice.shown;
}

static void streams_are_numbers_or_lists(void)
{
    EXPECT_INT(choose("", "", "", 0), 33); /* a folder alone keeps and shows all */
    EXPECT_INT(choose(NULL, NULL, NULL, 5), 33);
    EXPECT_INT(choose("3", "", "", 0), 30);
    EXPECT_INT(choose("1", "2", "", 0), 32);
    EXPECT_INT(choose("0", "", "", 0), 0);
    EXPECT_INT(choose("0:1,1:3", "", "", 0), 10);
    EXPECT_INT(choose("0:1,1:3", "", "", 1), 30);
    EXPECT_INT(choose("0:1,1:3", "", "", 2), 0); /* a rank that is not named has no file */
    EXPECT_INT(choose("0:1,1:3", "1:1", "", 1), 31);
    EXPECT_INT(choose("", "3", "0,2", 1), 30);
    EXPECT_INT(choose("", "3", "0,2", 2), 33);
    EXPECT_INT(choose("", "11:3", "", 1), 0);
    EXPECT_INT(choose("", "11:3", "", 11), 33);
}

static void a_plan_that_nobody_asked_for_leaves_the_terminal_to_the_first_rank(void)
{
    const tess_output_plan plan = {.folder = "d", .is_default = true};
    EXPECT_INT(tess_output_choose(&plan, 0, 0).kept, OUTPUT_NONE);
    EXPECT_INT(tess_output_choose(&plan, 1, 1).kept, OUTPUT_ALL);
    EXPECT_INT(tess_output_choose(&plan, 0, 4).shown, OUTPUT_ALL); /* the first rank of another host */
    EXPECT_INT(tess_output_choose(&(tess_output_plan){.tee = "3"}, 1, 1).kept, OUTPUT_NONE);
}

static void other_texts_are_refused(void)
{
    static const char *const wrong[] = {
        "4", "x", "-1", "0:4", "0:1,", ":1", "0:", "0:1,,1:1", " 1", "1 ", "0:1:2", "1,2", "99999999", "0:1;1:1"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        EXPECT_FAILS(tess_output_plan_check(&(tess_output_plan){.redirects = wrong[i]}), TESS_E_INVALID, "");
        EXPECT_FAILS(tess_output_plan_check(&(tess_output_plan){.tee = wrong[i]}), TESS_E_INVALID, "");
    }
    static const char *const filters[] = {"a", "0,", ",0", "0 1", "-1"};
    for (size_t i = 0; i < sizeof(filters) / sizeof(filters[0]); i++)
        EXPECT_FAILS(tess_output_plan_check(&(tess_output_plan){.filter = filters[i]}), TESS_E_INVALID, "");
}

static const test_case cases[] = {
    CASE(streams_are_numbers_or_lists),
    CASE(a_plan_that_nobody_asked_for_leaves_the_terminal_to_the_first_rank),
    CASE(other_texts_are_refused),
};

TEST_MAIN(cases)
