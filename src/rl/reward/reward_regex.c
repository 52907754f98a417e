/* Patterns on PCRE2, interpreted: its limits then count the same steps on every machine, which the JIT's do not. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "rl/reward/reward_impl.h"

#include <pcre2.h>
#include <stdio.h>

enum {
    MATCH_LIMIT = 1 << 20,    /* steps */
    DEPTH_LIMIT = 1 << 14,    /* depth of backtracking */
    HEAP_LIMIT_KIB = 8 << 10, /* memory for backtracking */
    NEST_LIMIT = 64,          /* depth of parentheses in a pattern */
    MOST_MATCHES = 4096       /* matches in one response */
};

struct reward_regex {
    tess_mem *mem;
    char what[32];
    pcre2_general_context *general;
    pcre2_code *code;
    pcre2_match_context *context;
    pcre2_match_data *match;
};

static void *pool_alloc(PCRE2_SIZE size, void *mem)
{
    void *block = NULL;
    return tess_mem_alloc(mem, TESS_POOL_MISC, size, "regex", &block) == TESS_OK ? block : NULL;
}

static void pool_free(void *block, void *mem)
{
    tess_mem_free(mem, block);
}

static tess_status compile(reward_regex *regex, const char *pattern)
{
    pcre2_compile_context *limits = pcre2_compile_context_create(regex->general);
    TESS_CHECK(limits != NULL, TESS_E_NOMEM, "no memory for %s", regex->what);
    pcre2_set_parens_nest_limit(limits, NEST_LIMIT);
    int error = 0;
    PCRE2_SIZE at = 0;
    regex->code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                PCRE2_MATCH_INVALID_UTF | PCRE2_DOTALL | PCRE2_NEVER_BACKSLASH_C, &error, &at, limits);
    pcre2_compile_context_free(limits);
    if (regex->code == NULL) {
        char text[120] = "";
        pcre2_get_error_message(error, (PCRE2_UCHAR *)text, sizeof(text));
        return TESS_FAIL(TESS_E_INVALID, "%s: '%s' is no regex: %s (at byte %zu)", regex->what, pattern, text,
                         (size_t)at);
    }
    return TESS_OK;
}

static tess_status prepare(reward_regex *regex, const char *pattern)
{
    regex->general = pcre2_general_context_create(pool_alloc, pool_free, regex->mem);
    TESS_CHECK(regex->general != NULL, TESS_E_NOMEM, "no memory for %s", regex->what);
    TESS_TRY(compile(regex, pattern));
    regex->context = pcre2_match_context_create(regex->general);
    regex->match = pcre2_match_data_create(2, regex->general); /* the match and its first group */
    TESS_CHECK(regex->context != NULL && regex->match != NULL, TESS_E_NOMEM, "no memory to match %s", regex->what);
    pcre2_set_match_limit(regex->context, MATCH_LIMIT);
    pcre2_set_depth_limit(regex->context, DEPTH_LIMIT);
    pcre2_set_heap_limit(regex->context, HEAP_LIMIT_KIB);
    return TESS_OK;
}

tess_status reward_regex_create(tess_mem *mem, const char *pattern, const char *what, reward_regex **out)
{
    reward_regex *regex;
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(*regex), "regex", (void **)&regex));
    regex->mem = mem;
    snprintf(regex->what, sizeof(regex->what), "%s", what);
    tess_status status = prepare(regex, pattern);
    if (status != TESS_OK)
        reward_regex_destroy(&regex);
    else
        *out = regex;
    return status;
}

void reward_regex_destroy(reward_regex **regex)
{
    if (*regex == NULL)
        return;
    pcre2_match_data_free((*regex)->match);
    pcre2_match_context_free((*regex)->context);
    pcre2_code_free((*regex)->code);
    pcre2_general_context_free((*regex)->general);
    tess_mem_free((*regex)->mem, *regex);
    *regex = NULL;
}

static tess_status match(reward_regex *regex, reward_text text, size_t from, uint32_t options, bool *found)
{
    int n = pcre2_match(regex->code, (PCRE2_SPTR)(text.size > 0 ? text.at : ""), text.size, from, options, regex->match,
                        regex->context);
    *found = n >= 0;
    if (n < 0 && n != PCRE2_ERROR_NOMATCH) {
        char reason[120] = "";
        pcre2_get_error_message(n, (PCRE2_UCHAR *)reason, sizeof(reason));
        return TESS_FAIL(TESS_E_INVALID, "the regex gives up on its %zu bytes: %s", text.size, reason);
    }
    return TESS_OK;
}

/* Returns the first group of the newest match. */
static reward_text group_of(const reward_regex *regex, reward_text text)
{
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(regex->match);
    bool set = span[2] != PCRE2_UNSET && span[2] <= span[3] && span[3] <= text.size;
    return set ? (reward_text){text.at + span[2], span[3] - span[2]} : (reward_text){text.at, 0};
}

/* Returns the place where the search continues: after the match, and one character further if the match was empty. */
static size_t next_from(const reward_regex *regex, reward_text text, size_t from)
{
    size_t end = pcre2_get_ovector_pointer(regex->match)[1];
    if (end > from)
        return end;
    for (end = from + 1; end < text.size && ((unsigned char)text.at[end] & 0xc0) == 0x80;)
        end++;
    return end;
}

bool reward_regex_has_group(const reward_regex *regex)
{
    uint32_t groups = 0;
    pcre2_pattern_info(regex->code, PCRE2_INFO_CAPTURECOUNT, &groups);
    return groups > 0;
}

tess_status reward_regex_grade(reward_regex *regex, reward_text response, reward_text label, double *value)
{
    const bool has_group = reward_regex_has_group(regex);
    bool found = true;
    size_t from = 0;
    *value = 0;
    for (int n = 0; found && from <= response.size; n++) {
        TESS_CHECK(n < MOST_MATCHES, TESS_E_INVALID, "the regex matches more than %d times", MOST_MATCHES);
        TESS_TRY(match(regex, response, from, 0, &found));
        if (found && !has_group) {
            *value = 1;
            return TESS_OK;
        }
        if (found) {
            *value = reward_exact(group_of(regex, response), label);
            from = next_from(regex, response, from);
        }
    }
    return TESS_OK;
}

tess_status reward_format_grade(reward_regex *regex, reward_text response, double *value)
{
    bool found;
    TESS_TRY(match(regex, response, 0, PCRE2_ANCHORED | PCRE2_ENDANCHORED, &found));
    *value = found;
    return TESS_OK;
}
