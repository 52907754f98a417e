#define PCRE2_CODE_UNIT_WIDTH 8
#include "base/text/regex.h"

#include <pcre2.h>
#include <stdio.h>

#include "base/mem/scoped.h"

enum { NEST_LIMIT = 64, JIT_STACK_LEAST = 32 << 10, SHOWN = 120 };

struct tess_regex {
    tess_mem *mem;
    pcre2_code *code;
    uint32_t options; /* options of each search */
    char what[128];
};

struct tess_regex_scratch {
    tess_mem *mem;
    pcre2_match_context *context;
    pcre2_match_data *match;
    pcre2_jit_stack *stack;
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

static uint32_t options_of(unsigned flags)
{
    static const struct {
        tess_regex_flag flag;
        uint32_t options;
    } rows[] = {{TESS_REGEX_CASELESS, PCRE2_CASELESS},
                {TESS_REGEX_MULTILINE, PCRE2_MULTILINE},
                {TESS_REGEX_DOTALL, PCRE2_DOTALL},
                {TESS_REGEX_NAMED_ONLY, PCRE2_NO_AUTO_CAPTURE},
                {TESS_REGEX_UTF8, PCRE2_UTF | PCRE2_UCP},
                {TESS_REGEX_BROKEN_UTF8, PCRE2_MATCH_INVALID_UTF},
                {TESS_REGEX_WHOLE, PCRE2_ANCHORED | PCRE2_ENDANCHORED}};
    uint32_t options = PCRE2_NEVER_BACKSLASH_C;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if ((flags & rows[i].flag) != 0)
            options |= rows[i].options;
    return options;
}

/* The compiled pattern keeps a copy of the context's functions, so the context may be freed. */
static tess_status compile(tess_regex *regex, const char *pattern, size_t size, unsigned flags, const char *what)
{
    int error = 0;
    PCRE2_SIZE at = 0;
    pcre2_general_context *general = pcre2_general_context_create(pool_alloc, pool_free, regex->mem);
    pcre2_compile_context *rules = general != NULL ? pcre2_compile_context_create(general) : NULL;
    if (rules != NULL) {
        pcre2_set_newline(rules, PCRE2_NEWLINE_LF);
        pcre2_set_parens_nest_limit(rules, NEST_LIMIT);
        regex->code = pcre2_compile((PCRE2_SPTR)pattern, size, options_of(flags), &error, &at, rules);
    }
    pcre2_compile_context_free(rules);
    pcre2_general_context_free(general);
    TESS_CHECK(rules != NULL, TESS_E_NOMEM, "%s: no memory for the regex", what);
    if (regex->code == NULL) {
        char reason[160] = "";
        pcre2_get_error_message(error, (PCRE2_UCHAR *)reason, sizeof(reason));
        return TESS_FAIL(TESS_E_FORMAT, "%s: the regex '%.*s' is invalid at byte %zu: %s", what,
                         (int)(size < SHOWN ? size : SHOWN), pattern, (size_t)at, reason);
    }
    return TESS_OK;
}

tess_status tess_regex_create(tess_mem *mem, const char *pattern, size_t size, unsigned flags, const char *what,
                              tess_regex **out)
{
    TESS_AUTO(tess_regex_destroy) tess_regex *regex = NULL;
    *out = NULL;
    TESS_TRY(TESS_NEW(mem, 1, "regex", &regex));
    regex->mem = mem;
    regex->options = (flags & TESS_REGEX_UTF8) != 0 ? PCRE2_NO_UTF_CHECK : 0;
    snprintf(regex->what, sizeof(regex->what), "%s", what);
    TESS_TRY(compile(regex, pattern, size, flags, what));
    *out = TESS_GIVE(regex);
    return TESS_OK;
}

void tess_regex_destroy(tess_regex **regex)
{
    if (*regex == NULL)
        return;
    pcre2_code_free((*regex)->code);
    tess_mem_drop(regex);
}

void tess_regex_speed_up(tess_regex *regex)
{
    (void)pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE);
}

int tess_regex_n_groups(const tess_regex *regex)
{
    uint32_t n = 0;
    pcre2_pattern_info(regex->code, PCRE2_INFO_CAPTURECOUNT, &n);
    return (int)n;
}

const char *tess_regex_name(const tess_regex *regex, int i, int *group)
{
    uint32_t n = 0, size = 0;
    PCRE2_SPTR table = NULL;
    pcre2_pattern_info(regex->code, PCRE2_INFO_NAMECOUNT, &n);
    pcre2_pattern_info(regex->code, PCRE2_INFO_NAMEENTRYSIZE, &size);
    pcre2_pattern_info(regex->code, PCRE2_INFO_NAMETABLE, &table);
    if (i < 0 || (uint32_t)i >= n)
        return NULL;
    table += (size_t)i * size;
    *group = table[0] << 8 | table[1]; /* an entry is a number of two bytes, then the name */
    return (const char *)table + 2;
}

tess_status tess_regex_scratch_create(tess_mem *mem, const tess_regex_limits *limits, tess_regex_scratch **out)
{
    tess_regex_scratch *scratch;
    *out = NULL;
    TESS_TRY(TESS_NEW(mem, 1, "regex scratch", &scratch));
    scratch->mem = mem;
    pcre2_general_context *general = pcre2_general_context_create(pool_alloc, pool_free, mem);
    if (general != NULL) {
        scratch->context = pcre2_match_context_create(general);
        scratch->match = pcre2_match_data_create(1 + (uint32_t)limits->groups, general);
        if (limits->jit_stack > 0)
            scratch->stack = pcre2_jit_stack_create(JIT_STACK_LEAST, limits->jit_stack, general);
    }
    pcre2_general_context_free(general);
    if (scratch->context == NULL || scratch->match == NULL) {
        tess_regex_scratch_destroy(&scratch);
        return TESS_FAIL(TESS_E_NOMEM, "no memory to match regexes");
    }
    if (scratch->stack != NULL)
        pcre2_jit_stack_assign(scratch->context, NULL, scratch->stack);
    pcre2_set_match_limit(scratch->context, limits->steps);
    if (limits->depth > 0)
        pcre2_set_depth_limit(scratch->context, limits->depth);
    pcre2_set_heap_limit(scratch->context, limits->heap_kib);
    *out = scratch;
    return TESS_OK;
}

void tess_regex_scratch_destroy(tess_regex_scratch **scratch)
{
    if (*scratch == NULL)
        return;
    pcre2_jit_stack_free((*scratch)->stack);
    pcre2_match_data_free((*scratch)->match);
    pcre2_match_context_free((*scratch)->context);
    tess_mem_drop(scratch);
}

/* Searches, with the interpreter if the JIT's stack is too small. Returns the result of pcre2_match, which is below
 * 0 if nothing is found. */
static int search(const tess_regex *regex, tess_regex_scratch *scratch, const char *text, size_t size, size_t from,
                  uint32_t more)
{
    const uint32_t options = regex->options | more;
    int n = pcre2_match(regex->code, (PCRE2_SPTR)text, size, from, options, scratch->match, scratch->context);
    if (n == PCRE2_ERROR_JIT_STACKLIMIT)
        n = pcre2_match(regex->code, (PCRE2_SPTR)text, size, from, options | PCRE2_NO_JIT, scratch->match,
                        scratch->context);
    return n;
}

tess_status tess_regex_find(const tess_regex *regex, tess_regex_scratch *scratch, const char *text, size_t size,
                            size_t from, bool *found, size_t *begin, size_t *end)
{
    int n = search(regex, scratch, text, size, from, 0);
    *found = n >= 0;
    if (n == PCRE2_ERROR_NOMATCH)
        return TESS_OK;
    if (n < 0) {
        char reason[120] = "";
        pcre2_get_error_message(n, (PCRE2_UCHAR *)reason, sizeof(reason));
        return TESS_FAIL(TESS_E_INVALID, "%s: the regex gives up at byte %zu of %zu: %s", regex->what, from, size,
                         reason);
    }
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(scratch->match);
    *begin = span[0];
    *end = span[1];
    TESS_CHECK(*begin >= from && *end >= *begin && *end <= size, TESS_E_INVALID,
               "%s: the regex matches outside the text", regex->what);
    return TESS_OK;
}

bool tess_regex_matches(const tess_regex *regex, tess_regex_scratch *scratch, const char *text, size_t size)
{
    return search(regex, scratch, text, size, 0, 0) >= 0;
}

bool tess_regex_matches_part(const tess_regex *regex, tess_regex_scratch *scratch, const char *text, size_t size,
                             size_t from, size_t to)
{
    return search(regex, scratch, text, to, from, to < size ? PCRE2_NOTEOL : 0) >= 0;
}

bool tess_regex_group(const tess_regex_scratch *scratch, int group, size_t *begin, size_t *end)
{
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(scratch->match) + 2 * (size_t)group;
    if ((uint32_t)group >= pcre2_get_ovector_count(scratch->match) || span[0] == PCRE2_UNSET || span[1] < span[0])
        return false;
    *begin = span[0];
    *end = span[1];
    return true;
}
