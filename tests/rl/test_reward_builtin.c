/* The built-in graders: numbers, boxed answers, patterns, words, lengths. */
#include <stdlib.h>

#include "base/text/json.h"
#include "rl/reward/reward.h"
#include "support/test.h"

static tess_reward_item item_of(const char *prompt, const char *response, const char *label)
{
    return (tess_reward_item){.id = 7,
                              .prompt = prompt,
                              .prompt_size = strlen(prompt),
                              .response = response,
                              .response_size = strlen(response),
                              .label = label,
                              .label_size = strlen(label)};
}

static tess_reward_result score_item(const tess_reward_options *options, const tess_reward_item *item)
{
    tess_rewarder *rewarder;
    tess_reward_result result;
    EXPECT_OK(tess_rewarder_create(test_mem(), options, &rewarder));
    EXPECT_OK(tess_rewarder_score(rewarder, item, 1, 1, &result));
    tess_rewarder_destroy(&rewarder);
    EXPECT(rewarder == NULL);
    return result;
}

static double score(const tess_reward_options *options, const char *response, const char *label)
{
    tess_reward_item item = item_of("", response, label);
    tess_reward_result result = score_item(options, &item);
    EXPECT(result.scored);
    return result.value;
}

typedef struct answer_case {
    const char *response, *label;
    double value;
} answer_case;

static void expect_all(const tess_reward_options *options, const answer_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double value = score(options, cases[i].response, cases[i].label);
        if (value != cases[i].value)
            test_fail(__FILE__, __LINE__, "'%s' for the label '%s' gets %g, expected %g", cases[i].response,
                      cases[i].label, value, cases[i].value);
    }
}
#define EXPECT_ALL(options, cases) expect_all((options), (cases), sizeof(cases) / sizeof((cases)[0]))

static void exact_compares_without_the_white_space_around(void)
{
    static const answer_case cases[] = {
        {" Paris\n", "Paris", 1}, {"paris", "Paris", 0}, {"Paris.", "Paris", 0}, {"", "", 1}, {"Pa ris", "Paris", 0},
    };
    EXPECT_ALL(&(tess_reward_options){.kind = "exact"}, cases);
}

static void number_takes_what_follows_the_last_mark(void)
{
    static const answer_case cases[] = {
        {"6 * 3 = 18\n#### 18", "They have 6.\n#### 18", 1},
        {"#### 18", "18", 1},
        {"####18.", "18", 1},
        {"#### $1,234.50", "1234.5", 1},
        {"#### 1234", "1,234", 1},
        {"#### 018", "18", 1},
        {"#### -0.0", "0", 1},
        {"#### +5", "5", 1},
        {"#### -5", "5", 0},
        {"#### .5", "0.5", 1},
        {"#### 5kg", "5", 1},
        {"#### 12345678901234567890123456789.10", "12345678901234567890123456789.1", 1},
        {"#### 12345678901234567890123456788", "12345678901234567890123456789", 0},
        {"#### 18 #### 19", "18", 0}, /* the last one counts */
        {"#### 19\n#### 18", "18", 1},
        {"18", "18", 0}, /* no mark */
        {"####", "18", 0},
        {"#### eighteen", "18", 0},
        {"#### 1e1", "10", 0},
        {"#### 1e1", "1", 0},
        {"#### 1.2.3", "1.2", 0},
        {"#### 1,23", "1", 0},
        {"#### 18_000", "18", 0},
        {"#### \xd9\xa1\xd9\xa8", "18", 0}, /* Arabic-Indic digits */
        {"#### 1\xef\xbc\x98", "1", 0},     /* a fullwidth 8 after a 1 */
        {"#### --5", "5", 0},
        {"#### 180", "18", 0},
        {"#### 42\xe2\x82\xac", "42", 1}, /* a unit: euro, degree, kilometre */
        {"#### 42\xc2\xb0", "42", 1},
        {"#### 42\xd0\xba\xd0\xbc", "42", 1},
        {"#### \xe2\x82\xac"
         "42",
         "42", 1},
        {"#### \xe2\x88\x92"
         "7",
         "-7", 1}, /* U+2212 */
        {"#### -7",
         "\xe2\x88\x92"
         "7",
         1},
        {"#### \xe2\x88\x92"
         "7",
         "7", 0},
        {"#### 42\xc2\xbd", "42", 0}, /* 42 and a half */
        {"#### 10\xc2\xb2", "10", 0},
        {"#### 42\xc2\xb0"
         "30",
         "42", 0},
        {"#### 3\xc3\x97"
         "4",
         "3", 0},
        {"#### 1/2", "1", 0},
        {"#### 10:30", "10", 0},
        {"#### 42\xff", "42", 0},
        {"#### 42", "42 apples", 1},
        {"#### 42", "The answer is 42.", 1},
    };
    EXPECT_ALL(&(tess_reward_options){.kind = "number"}, cases);
}

static void number_falls_back_to_the_last_number_where_allowed(void)
{
    static const answer_case cases[] = {
        {"First 3, then 18.", "18", 1},
        {"It is -5", "-5", 1},
        {"It is 7-5", "5", 1},
        {"x2 = 4, y3", "4", 1},
        {"1e5", "5", 0},
        {"v1.2.3", "3", 0},
        {"a12", "2", 0},
        {"It costs $1,000 today", "1000", 1},
        {"3,4,5", "5", 1},
        {"no number", "5", 0},
        {"#### none, but 5", "5", 0}, /* a mark decides */
        {"It costs \xe2\x82\xac"
         "42.",
         "42", 1},
        {"It costs 42\xe2\x82\xac.", "42", 1},
        {"It is \xe2\x88\x92"
         "7",
         "-7", 1},
        {"It is 9\xe2\x88\x92"
         "7",
         "7", 1},
        {"at 10:30", "30", 0},
        {"1/2", "2", 0},
    };
    EXPECT_ALL((&(tess_reward_options){.kind = "number", .number_fallback = true}), cases);
}

/* Checks an item of data that the graders of `kind` would get. */
static tess_status check(const char *kind, const char *prompt, const char *label)
{
    tess_rewarder *rewarder;
    const tess_reward_item item = item_of(prompt, "", label);
    const tess_reward_options options = {.kind = kind, .regex = "a(.)"};
    EXPECT_OK(tess_rewarder_create(test_mem(), &options, &rewarder));
    tess_status status = tess_rewarder_check_item(rewarder, &item);
    tess_rewarder_destroy(&rewarder);
    return status;
}

static void data_that_no_answer_could_be_judged_by_is_refused(void)
{
    static const char *const numbers[] = {"42", "-7",       "#### 18",   "She has 6 and 3.\n#### 9", "1,234.5",
                                          "$5", "5kg",      "42 apples", "\xe2\x88\x92\x37",         "42\xe2\x82\xac",
                                          ".5", "It - is 5"};
    static const char *const others[] = {"1/2",      "10:30", "1e5", "1.2.3",    "3,4,5",
                                         "7-5",      "x2",    "two", "\xc2\xbd", "3\xc2\xbd",
                                         "#### 1/2", "####",  "2^5", "6 and 3",  "#### about 6"};
    static const char *const kinds[] = {"exact", "number", "boxed", "f1", "regex"};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        EXPECT_OK(check("number", "", numbers[i]));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        EXPECT_FAILS(check("number", "", others[i]), TESS_E_INVALID, "is not one number");
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        EXPECT_FAILS(check(kinds[i], "", ""), TESS_E_INVALID, "it has no label, with which the grader '");
    EXPECT_OK(check("exact", "", "Paris"));
    EXPECT_FAILS(check("signs", "What is 2?", ""), TESS_E_INVALID, "signs needs a prompt like");
    EXPECT_OK(check("signs", "7 2 5=4:", ""));
    EXPECT_FAILS(check("countdown", "", ""), TESS_E_INVALID, "metadata");
}

static void boxed_takes_the_last_box_with_its_braces(void)
{
    static const answer_case cases[] = {
        {"so \\boxed{\\frac{1}{2}}.", "\\frac{1}{2}", 1},
        {"\\boxed{ x + 1 }", "x+1", 1},
        {"\\boxed{1} no, \\boxed{2}", "2", 1},
        {"\\boxed{1} no, \\boxed{2}", "1", 0},
        {"\\boxed{2} and \\boxed{3", "2", 0}, /* the last never closes */
        {"\\boxed{\\{1,2\\}}", "\\{1,2\\}", 1},
        {"$\\boxed{1,000.0}$", "1000", 1},
        {"\\boxed{$7$}", "text \\boxed{7}", 1},
        {"\\boxed{}", "", 0},
        {"7", "7", 0},
        {"\\boxed{1e1}", "10", 0},
    };
    EXPECT_ALL(&(tess_reward_options){.kind = "boxed"}, cases);
}

static void regex_and_format_match_as_documented(void)
{
    static const answer_case found[] = {{"yes, sure", "", 1}, {"no", "", 0}, {"\xff yes", "", 1}, {"", "", 0}};
    EXPECT_ALL((&(tess_reward_options){.kind = "regex", .regex = "\\byes\\b"}), found);
    static const answer_case group[] = {
        {"Answer: 4. Answer: 5", "5", 1}, {"Answer: 4. Answer: 5", "4", 0}, {"Answer: x", "x", 0}, {"", "", 0}};
    EXPECT_ALL((&(tess_reward_options){.kind = "regex", .regex = "Answer: (\\d+)"}), group);
    static const answer_case empty[] = {{"\xc3\xa9\xc3\xa9", "", 1}, {"", "", 1}};
    EXPECT_ALL((&(tess_reward_options){.kind = "regex", .regex = "(x*)"}), empty);
    static const answer_case whole[] = {{"<think>a\nb</think><answer>1</answer>", "", 1},
                                        {" <think>a</think><answer>1</answer>", "", 0},
                                        {"<think>a</think><answer>1</answer>\n", "", 0},
                                        {"<answer>1</answer>", "", 0}};
    EXPECT_ALL((&(tess_reward_options){.kind = "format", .format = "<think>.*</think><answer>[^<]*</answer>"}), whole);
}

static void a_regex_that_backtracks_without_end_is_a_failure(void)
{
    char response[64];
    memset(response, 'a', sizeof(response) - 1);
    response[sizeof(response) - 1] = '\0';
    const tess_reward_options options = {.kind = "format", .format = "(a+)+[bc]", .max_failures = 1};
    tess_reward_item item = item_of("", response, "");
    tess_reward_result result = score_item(&options, &item);
    EXPECT(!result.scored);
    EXPECT_CONTAINS(result.why, "format: reward.format: the regex gives up at byte 0 of 63: match limit exceeded");
}

static double countdown(const char *response, const char *metadata)
{
    tess_reward_item item = item_of("", response, "");
    json_t *json;
    EXPECT_OK(tess_json_parse(metadata, strlen(metadata), "metadata", true, &json));
    item.metadata = json;
    tess_reward_result result = score_item(&(tess_reward_options){.kind = "countdown"}, &item);
    json_decref(json);
    EXPECT(result.scored);
    return result.value;
}

static void countdown_counts_exactly_and_is_not_talked_round(void)
{
    static const answer_case cases[] = {
        {"(44 + 19) + 35", "", 1},
        {"I think. <answer>1</answer> no: <answer> 44+19+35 </answer> done", "", 1},
        {"44+19*35", "", 0.1},
        {"98", "", 0},         /* not one of the numbers */
        {"44+19+35+0", "", 0}, /* +0 */
        {"44+44+10", "", 0},   /* twice */
        {"44", "", 0.1},       /* each at most once */
        {"44--19", "", 0},     /* signs */
        {"+44+19+35", "", 0},
        {"-44", "", 0},
        {"44+19+35=98", "", 0},
        {"4e1", "", 0},
        {"44.0+19+35", "", 0},
        {"044+19+35", "", 0},
        {"44 19", "", 0},
        {"4 4+19+35", "", 0},
        {"(44+19+35", "", 0},
        {"44+19+35)", "", 0},
        {"()", "", 0},
        {"", "", 0},
        {"44/(19-19)", "", 0},
        {"\xd9\xa4\xd9\xa4+19+35", "", 0},
        {"44\xe2\x88\x92"
         "19",
         "", 0},                     /* U+2212 */
        {"44+19+35\xc2\xa0", "", 0}, /* a space that is not ASCII's */
        {"44**19", "", 0},
        {"44+19+35 or so", "", 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        double value = countdown(cases[i].response, "{\"target\": 98, \"numbers\": [44, 19, 35]}");
        if (value != cases[i].value)
            test_fail(__FILE__, __LINE__, "'%s' gets %g, expected %g", cases[i].response, value, cases[i].value);
    }
    EXPECT(countdown("8/(3-8/3)", "{\"target\": 24, \"numbers\": [3, 3, 8, 8]}") == 1); /* no rounding */
    EXPECT(countdown("1/3*3", "{\"target\": 1, \"numbers\": [1, 3, 3]}") == 1);
    EXPECT(countdown("7/2", "{\"target\": 3, \"numbers\": [7, 2]}") == 0.1);
    EXPECT(countdown("3/(2-2)", "{\"target\": 3, \"numbers\": [3, 2, 2]}") == 0);
    EXPECT(countdown("1-2", "{\"target\": -1, \"numbers\": [1, 2]}") == 1);
}

static void countdown_stands_a_million_parentheses_and_overflow(void)
{
    enum { MANY = 1000000 };
    char *text = malloc(2 * MANY + 8);
    EXPECT(text != NULL);
    memset(text, '(', MANY);
    memset(text + MANY, ')', MANY);
    text[2 * MANY] = '\0';
    EXPECT(countdown(text, "{\"target\": 1, \"numbers\": [1]}") == 0);
    strcpy(text + 100, "1"); /* below the limit on bytes, above that on depth */
    EXPECT(countdown(text, "{\"target\": 1, \"numbers\": [1]}") == 0);
    memset(text, '9', 3000);
    text[3000] = '\0';
    EXPECT(countdown(text, "{\"target\": 1, \"numbers\": [9]}") == 0);
    free(text);
    const char *big = "{\"target\": 1, \"numbers\": [999999999999999999, 999999999999999999, 999999999999999998]}";
    EXPECT(countdown("999999999999999999*999999999999999999", big) == 0); /* beyond 64 bits: not a value */
    EXPECT(countdown("999999999999999999/999999999999999999", big) == 1);
    EXPECT(countdown("999999999999999999-999999999999999998", big) == 1);
}

static double signs(const char *prompt, const char *response)
{
    tess_reward_item item = item_of(prompt, response, "");
    tess_reward_result result = score_item(&(tess_reward_options){.kind = "signs"}, &item);
    EXPECT(result.scored);
    return result.value;
}

static void signs_takes_the_prompts_numbers_in_order_alone(void)
{
    static const answer_case cases[] = {
        {"7+2-5", "", 1},  {"7-2-5", "", 0.1}, {"7+2+5", "", 0.1},          {"7-5+2", "", 0},
        {"2+7-5", "", 0},  {"7+2-5+0", "", 0}, {"+7+2-5", "", 0},           {"7+2", "", 0},
        {"7+2--5", "", 0}, {"7+2-5 ", "", 0},  {"7+2-5\n", "", 0},          {"7 + 2 - 5", "", 0},
        {"4", "", 0},      {"7+2-05", "", 0},  {"7+2-5=4", "", 0},          {"", "", 0},
        {"7*2-5", "", 0},  {"7+2-5e0", "", 0}, {"7+2-\xef\xbc\x95", "", 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        double value = signs("7 2 5=4:", cases[i].response);
        if (value != cases[i].value)
            test_fail(__FILE__, __LINE__, "'%s' gets %g, expected %g", cases[i].response, value, cases[i].value);
    }
    EXPECT(signs("1 2 3=-4:", "1-2-3") == 1);
    EXPECT(signs("10 20=30:", "10+20") == 1);
}

static void tasks_that_cannot_be_read_are_failures_not_zeroes(void)
{
    const tess_reward_options signs_options = {.kind = "signs", .max_failures = 1};
    static const char *const prompts[] = {
        "7 2 5=4", "7 2 5=:", "7=7:", "7 2 5", "a 2 5=4:", "7  2=9:", "7 2=9:\n", "", "7 2 ", "7,2=9:"};
    for (size_t i = 0; i < sizeof(prompts) / sizeof(prompts[0]); i++) {
        tess_reward_item item = item_of(prompts[i], "7+2", "");
        tess_reward_result result = score_item(&signs_options, &item);
        EXPECT(!result.scored);
        EXPECT_CONTAINS(result.why, "signs needs a prompt like");
    }
    const tess_reward_options number_options = {.kind = "number", .max_failures = 1};
    tess_reward_item item = item_of("", "#### 1", "one");
    EXPECT_CONTAINS(score_item(&number_options, &item).why, "its label 'one' is not one number");
    const tess_reward_options countdown_options = {.kind = "countdown", .max_failures = 1};
    EXPECT_CONTAINS(score_item(&countdown_options, &item).why, "countdown needs metadata");
}

/* Values of HotpotQA's f1_score, which slime's is. */
static void f1_has_the_values_of_hotpotqa(void)
{
    static const answer_case cases[] = {
        {"The cat sat.", "a cat sat", 1},
        {"yes it is", "yes", 0}, /* a verdict alone or nothing */
        {"Yes!", "yes", 1},
        {"no", "yes", 0},
        {"", "", 0},
        {"the", "a", 0},
        {"dog", "cat", 0},
        {"well-known man", "wellknown man", 1},
    };
    const tess_reward_options options = {.kind = "f1"};
    EXPECT_ALL(&options, cases);
    EXPECT(score(&options, "cat cat dog", "cat dog") == 2 * (2.0 / 3) * 1.0 / (2.0 / 3 + 1.0));
    EXPECT(score(&options, "b c d e", "c") == 2 * 0.25 * 1.0 / (0.25 + 1.0));
}

static void overlong_and_length_cost_linearly(void)
{
    const tess_reward_options options = {.kind = "overlong", .max_tokens = 100, .overlong_tokens = 20};
    const struct {
        int64_t n_tokens;
        bool truncated;
        double value;
    } cases[] = {{0, false, 0},    {80, false, 0},   {81, false, -0.05}, {90, false, -0.5},
                 {100, false, -1}, {101, false, -1}, {10, true, -1}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tess_reward_item item = {.n_tokens = cases[i].n_tokens, .truncated = cases[i].truncated};
        EXPECT(score_item(&options, &item).value == cases[i].value);
    }
    tess_reward_item item = {.n_tokens = 25};
    EXPECT(score_item(&(tess_reward_options){.kind = "length", .max_tokens = 100}, &item).value == -0.25);
    item.n_tokens = 1000;
    EXPECT(score_item(&(tess_reward_options){.kind = "length", .max_tokens = 100}, &item).value == -1);
}

static void weights_add_up_the_parts(void)
{
    const tess_reward_options options = {
        .kind = "number:2, format:0.5,length:-1", .format = "<a>.*</a>#### \\d+", .max_tokens = 10};
    tess_reward_item item = item_of("", "<a>x</a>#### 12", "12");
    item.n_tokens = 5;
    tess_reward_result result = score_item(&options, &item);
    EXPECT(result.scored && result.value == 2 * 1.0 + 0.5 * 1.0 + -1 * -0.5);
    EXPECT_INT(result.n_parts, 3);
    EXPECT_TEXT(result.part[0].name, "number");
    EXPECT_TEXT(result.part[1].name, "format");
    EXPECT_TEXT(result.part[2].name, "length");
    EXPECT(result.part[0].value == 1 && result.part[1].value == 1 && result.part[2].value == -0.5);
}

static void options_that_cannot_work_are_refused_by_name(void)
{
    tess_rewarder *r = NULL;
    tess_mem *mem = test_mem();
#define REFUSES(needle, ...) \
    EXPECT_FAILS(tess_rewarder_create(mem, &(tess_reward_options){__VA_ARGS__}, &r), TESS_E_INVALID, needle)
    REFUSES("reward.kind is empty", .kind = "");
    REFUSES("reward.kind is empty", .kind = NULL);
    REFUSES("did you mean 'number'", .kind = "numbr");
    REFUSES("the weight of 'number' is 'x'", .kind = "number:x");
    REFUSES("the weight of 'number' is 'nan'", .kind = "number:nan");
    REFUSES("the weight of 'number' is '1 2'", .kind = "number:1 2");
    REFUSES("names 'exact' twice", .kind = "exact,exact");
    REFUSES("grader of reward.kind", .kind = "exact,");
    REFUSES("more than 8 graders", .kind = "exact,number,boxed,f1,signs,countdown,length,overlong,regex",
            .max_tokens = 2, .overlong_tokens = 1);
    REFUSES("needs reward.regex", .kind = "regex");
    REFUSES("needs reward.format", .kind = "format");
    REFUSES("reward.regex: the regex 'a(' is invalid at byte 2: missing closing parenthesis", .kind = "regex",
            .regex = "a(");
    REFUSES("'length' needs rollout.max_new_tokens", .kind = "length");
    REFUSES("from 1 to rollout.max_new_tokens", .kind = "overlong", .max_tokens = 5, .overlong_tokens = 6);
    REFUSES("reward.max_failures is 2", .kind = "exact", .max_failures = 2);
    REFUSES("negative", .kind = "exact", .workers = -1);
    REFUSES("reward.timeout_s", .kind = "exact", .timeout_s = -1);
    REFUSES("needs a program", .kind = "command");
    REFUSES("needs reward.url", .kind = "http", .url = "file:///etc/passwd");
#undef REFUSES
}

static void failures_beyond_the_share_stop_the_call(void)
{
    tess_rewarder *r;
    tess_reward_item items[4] = {item_of("7 2=9:", "7+2", ""), item_of("?", "7+2", ""), item_of("7 2=9:", "7-2", ""),
                                 item_of("!", "7+2", "")};
    for (uint64_t i = 0; i < 4; i++)
        items[i].id = 40 + i;
    tess_reward_result results[4];
    tess_reward_failures failures;
    EXPECT_OK(tess_rewarder_create(test_mem(), &(tess_reward_options){.kind = "signs", .max_failures = 0.49}, &r));
    EXPECT_OK(tess_rewarder_score(r, items, 3, 3, results)); /* one of three: 0.49 * 3 > 1 */
    EXPECT(results[0].value == 1 && !results[1].scored && results[2].value == 0.1);
    EXPECT(results[1].value == 0 && results[0].why[0] == '\0');
    EXPECT_FAILS(
        tess_rewarder_score(r, items, 4, 4, results), TESS_E_INVALID,
        "2 of 4 rewards failed, reward.max_failures allows 0.49 of them; grader 'signs', item 43: signs needs");
    tess_rewarder_failures(r, &failures);
    EXPECT_INT(failures.n_items, 7);
    EXPECT_INT(failures.n_failed, 3);
    EXPECT_CONTAINS(failures.newest, "grader 'signs', item 43");
    EXPECT_OK(tess_rewarder_score(r, items, 0, 0, NULL));
    tess_rewarder_destroy(&r);
}

static const test_case cases[] = {
    CASE(exact_compares_without_the_white_space_around),
    CASE(number_takes_what_follows_the_last_mark),
    CASE(number_falls_back_to_the_last_number_where_allowed),
    CASE(data_that_no_answer_could_be_judged_by_is_refused),
    CASE(boxed_takes_the_last_box_with_its_braces),
    CASE(regex_and_format_match_as_documented),
    CASE(a_regex_that_backtracks_without_end_is_a_failure),
    CASE(countdown_counts_exactly_and_is_not_talked_round),
    CASE(countdown_stands_a_million_parentheses_and_overflow),
    CASE(signs_takes_the_prompts_numbers_in_order_alone),
    CASE(tasks_that_cannot_be_read_are_failures_not_zeroes),
    CASE(f1_has_the_values_of_hotpotqa),
    CASE(overlong_and_length_cost_linearly),
    CASE(weights_add_up_the_parts),
    CASE(options_that_cannot_work_are_refused_by_name),
    CASE(failures_beyond_the_share_stop_the_call),
};
TEST_MAIN(cases)
