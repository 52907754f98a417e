/* Regular expressions of base/text. */
#include "support/test.h"

#include "base/text/regex.h"

static const tess_regex_limits limits = {.groups = 2, .steps = 20000, .heap_kib = 1024, .jit_stack = 64 << 10};

static tess_regex *regex_of(const char *pattern, unsigned flags)
{
    tess_regex *regex;
    EXPECT_OK(tess_regex_create(test_mem(), pattern, strlen(pattern), flags, "pattern", &regex));
    return regex;
}

static bool matches(const char *pattern, unsigned flags, const char *text)
{
    tess_regex *regex = regex_of(pattern, flags);
    tess_regex_scratch *scratch;
    EXPECT_OK(tess_regex_scratch_create(test_mem(), &limits, &scratch));
    bool interpreted = tess_regex_matches(regex, scratch, text, strlen(text));
    tess_regex_speed_up(regex);
    EXPECT_INT(tess_regex_matches(regex, scratch, text, strlen(text)), interpreted);
    tess_regex_scratch_destroy(&scratch);
    tess_regex_destroy(&regex);
    return interpreted;
}

static void each_flag_changes_what_matches(void)
{
    static const struct {
        unsigned flag;
        const char *pattern, *text;
        bool without, with;
    } rows[] = {
        {TESS_REGEX_CASELESS, "abc", "xABC", false, true},      {TESS_REGEX_MULTILINE, "^b", "a\nb", false, true},
        {TESS_REGEX_DOTALL, "a.b", "a\nb", false, true},        {TESS_REGEX_UTF8, "^.$", "\xc3\xa9", false, true},
        {TESS_REGEX_BROKEN_UTF8, "^..$", "a\xff", true, false}, {TESS_REGEX_WHOLE, "a", "aa", true, false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        EXPECT_INT(matches(rows[i].pattern, 0, rows[i].text), rows[i].without);
        EXPECT_INT(matches(rows[i].pattern, rows[i].flag, rows[i].text), rows[i].with);
    }
    EXPECT(!matches("a$", 0, "a\r\n")); /* a line ends at "\n" alone */
}

static void an_invalid_pattern_names_itself_and_the_byte(void)
{
    static const struct {
        const char *pattern, *message;
    } rows[] = {{"ab(c", "x.yaml:3: the regex 'ab(c' is invalid at byte 4: missing closing parenthesis"},
                {"a[z-b]", "x.yaml:3: the regex 'a[z-b]' is invalid at byte 4: range out of order in character class"},
                {"\\C", "x.yaml:3: the regex '\\C' is invalid at byte 2: using \\C is disabled by the application"}};
    tess_regex *regex;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        EXPECT_FAILS(tess_regex_create(test_mem(), rows[i].pattern, strlen(rows[i].pattern), 0, "x.yaml:3", &regex),
                     TESS_E_FORMAT, rows[i].message);
        EXPECT(regex == NULL);
    }
    char deep[200];
    memset(deep, '(', 100);
    memset(deep + 100, ')', 100);
    EXPECT_FAILS(tess_regex_create(test_mem(), deep, sizeof(deep), 0, "deep", &regex), TESS_E_FORMAT, "nested");
}

static void groups_are_found_by_name_and_number(void)
{
    const char *text = "rank 17 of host n3";
    tess_regex *regex = regex_of("rank (?<rank>[0-9]+)(x)?( of host (?<host>[a-z0-9]+))?", TESS_REGEX_NAMED_ONLY);
    tess_regex_scratch *scratch;
    EXPECT_OK(tess_regex_scratch_create(test_mem(), &limits, &scratch));
    EXPECT_INT(tess_regex_n_groups(regex), 2); /* two have no name */
    int group;
    EXPECT_TEXT(tess_regex_name(regex, 0, &group), "host");
    EXPECT_INT(group, 2);
    EXPECT_TEXT(tess_regex_name(regex, 1, &group), "rank");
    EXPECT_INT(group, 1);
    EXPECT(tess_regex_name(regex, 2, &group) == NULL);

    bool found;
    size_t begin, end;
    EXPECT_OK(tess_regex_find(regex, scratch, text, strlen(text), 0, &found, &begin, &end));
    EXPECT(found && begin == 0 && end == strlen(text));
    EXPECT(tess_regex_group(scratch, 1, &begin, &end) && begin == 5 && end == 7);
    EXPECT(tess_regex_group(scratch, 2, &begin, &end) && begin == 16 && end == 18);
    EXPECT(!tess_regex_group(scratch, 3, &begin, &end)); /* the scratch keeps two */
    EXPECT_OK(tess_regex_find(regex, scratch, text, 7, 0, &found, &begin, &end));
    EXPECT(found && end == 7 && !tess_regex_group(scratch, 2, &begin, &end));
    EXPECT_OK(tess_regex_find(regex, scratch, text, strlen(text), 1, &found, &begin, &end));
    EXPECT(!found);
    tess_regex_scratch_destroy(&scratch);
    tess_regex_destroy(&regex);
}

static void a_search_without_end_reaches_the_limits(void)
{
    char text[64];
    memset(text, 'a', sizeof(text));
    tess_regex *regex = regex_of("(a+)+[bc]", 0);
    tess_regex_scratch *scratch;
    EXPECT_OK(tess_regex_scratch_create(test_mem(), &limits, &scratch));
    for (int fast = 0; fast < 2; fast++) {
        bool found;
        size_t begin, end;
        EXPECT_FAILS(tess_regex_find(regex, scratch, text, sizeof(text), 3, &found, &begin, &end), TESS_E_INVALID,
                     "pattern: the regex gives up at byte 3 of 64: match limit exceeded");
        EXPECT(!found);
        EXPECT(!tess_regex_matches(regex, scratch, text, sizeof(text)));
        tess_regex_speed_up(regex);
    }
    tess_regex_scratch_destroy(&scratch);
    tess_regex_destroy(&regex);
}

/* Machine code keeps a state of each repetition of the group on its stack. */
static void the_interpreter_takes_over_where_the_stack_is_too_small(void)
{
    enum { SIZE = 10000 };
    static const tess_regex_limits small = {.steps = 1 << 20, .heap_kib = 64 << 10, .jit_stack = 32 << 10};
    static char text[SIZE];
    memset(text, 'a', SIZE);
    tess_regex *regex = regex_of("^(a|b)*$", 0);
    tess_regex_scratch *scratch;
    tess_regex_speed_up(regex);
    EXPECT_OK(tess_regex_scratch_create(test_mem(), &small, &scratch));
    EXPECT(tess_regex_matches(regex, scratch, text, SIZE));
    text[SIZE - 1] = 'c';
    EXPECT(!tess_regex_matches(regex, scratch, text, SIZE));
    tess_regex_scratch_destroy(&scratch);
    tess_regex_destroy(&regex);
}

static const test_case cases[] = {
    CASE(each_flag_changes_what_matches),
    CASE(an_invalid_pattern_names_itself_and_the_byte),
    CASE(groups_are_found_by_name_and_number),
    CASE(a_search_without_end_reaches_the_limits),
    CASE(the_interpreter_takes_over_where_the_stack_is_too_small),
};
TEST_MAIN(cases)
