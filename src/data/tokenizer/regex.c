#define PCRE2_CODE_UNIT_WIDTH 8
#include "data/tokenizer/regex.h"

#include <pcre2.h>
#include <stdio.h>
#include <string.h>

#include "base/text/text.h"
#include "data/tokenizer/unicode_added.h"

enum {
    MAX_PATTERN = 1 << 16,
    JIT_STACK_MIN = 32 << 10,
    JIT_STACK_MAX = 8 << 20,
    HEAP_LIMIT_KIB = 64 << 10, /* heap of the interpreter, when the JIT's stack is too small */
    MATCH_LIMIT = 20 << 20
};

struct tess_regex {
    tess_mem *mem;
    pcre2_general_context *general;
    pcre2_code *code;
    char what[128];
};

struct tess_regex_scratch {
    tess_mem *mem;
    pcre2_general_context *general;
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

/* The classes of escapes as Oniguruma defines them: the inside of a character class, and properties. */
static const struct escape_class {
    char escape;
    const char *inside;
    const char *properties[6];
} escape_classes[] = {
    {'s',
     "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}",
     {NULL}},
    {'w',
     "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{"
     "1f189}",
     {"L", "M", "Nd", "Nl", "Pc"}},
    {'d', "", {"Nd"}},
    {'h', "0-9a-fA-F", {NULL}},
};
enum { N_ESCAPES = sizeof(escape_classes) / sizeof(escape_classes[0]) };

static const struct escape_class *class_of(char escape)
{
    for (int i = 0; i < N_ESCAPES; i++)
        if (escape_classes[i].escape == escape)
            return &escape_classes[i];
    return NULL;
}

/* A script is that of the character alone; PCRE2 takes \p{Han} as the scripts that it is used with, too. */
static bool is_script(const char *name, size_t n)
{
    static const char *const scripts[] = {"Han",  "Hiragana", "Katakana", "Hangul", "Latin",     "Greek",
                                          "Thai", "Cyrillic", "Arabic",   "Hebrew", "Devanagari"};
    for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++)
        if (strlen(scripts[i]) == n && memcmp(scripts[i], name, n) == 0)
            return true;
    return false;
}

/* Appends the inside of a character class, with the characters that PCRE2 does not know. */
static tess_status append_property(const char *name, size_t n, tess_buffer *out)
{
    TESS_TRY(tess_buffer_printf(out, "\\p{%s%.*s}", is_script(name, n) ? "sc:" : "", (int)n, name));
    return tess_unicode_added_ranges(name, n, out);
}

static tess_status append_class(const struct escape_class *class, tess_buffer *out)
{
    TESS_TRY(tess_buffer_append(out, class->inside, strlen(class->inside)));
    for (int i = 0; class->properties[i] != NULL; i++)
        TESS_TRY(append_property(class->properties[i], strlen(class->properties[i]), out));
    return TESS_OK;
}

/* Rewrites \p{X}, \P{X}, \pX (class NULL), or the escape of a class. A class cannot subtract, so what is negated inside
 * of one stays as it is. */
static tess_status rewrite_class(const char *p, size_t n, const struct escape_class *class, bool in_class,
                                 tess_buffer *out, size_t *used)
{
    bool negated = p[1] < 'a', braces = class == NULL && n > 2 && p[2] == '{';
    const char *end = braces ? memchr(p, '}', n) : p + (n > 2 ? 3 : n), *name = braces ? p + 3 : p + 2;
    if (end == NULL)
        return tess_buffer_append(out, p, 2);
    *used = class != NULL ? 2 : (size_t)(end - p) + braces;
    if (braces && end > name && name[0] == '^') {
        negated = !negated;
        name++;
    }
    if (in_class && negated)
        return tess_buffer_append(out, p, *used);
    if (!in_class)
        TESS_TRY(tess_buffer_printf(out, negated ? "[^" : "["));
    TESS_TRY(class != NULL ? append_class(class, out) : append_property(name, (size_t)(end - name), out));
    return in_class ? TESS_OK : tess_buffer_append(out, "]", 1);
}

/* Copies the escape at p[0] == '\\' into out; *used: its bytes in the pattern. */
static tess_status rewrite_escape(const char *p, size_t n, bool in_class, const char *what, tess_buffer *out,
                                  size_t *used)
{
    TESS_CHECK(n >= 2, TESS_E_FORMAT, "%s: the regex ends in a backslash", what);
    *used = 2;
    const struct escape_class *class = class_of((char)(p[1] | 0x20));
    if (p[1] == 'p' || p[1] == 'P' || (class != NULL && p[1] != 'H'))
        return rewrite_class(p, n, class, in_class, out, used);
    TESS_CHECK(strchr("HRXKyYGQEC", p[1]) == NULL || p[1] == '\0', TESS_E_UNSUPPORTED,
               "%s: \\%c in a regex is not supported", what, p[1]);
    if (p[1] == 'u' && n >= 6) {
        *used = 6;
        return tess_buffer_printf(out, "\\x{%.4s}", p + 2);
    }
    return tess_buffer_append(out, p, 2);
}

static tess_status rewrite(const char *p, size_t n, const char *what, tess_buffer *out)
{
    bool in_class = false;
    for (size_t i = 0; i < n;) {
        size_t used = 1;
        if (p[i] == '\\') {
            TESS_TRY(rewrite_escape(p + i, n - i, in_class, what, out, &used));
        } else if (in_class && p[i] == '[' && i + 1 < n && p[i + 1] == ':') {
            const char *end = memchr(p + i, ']', n - i);
            used = end == NULL ? 1 : (size_t)(end - (p + i)) + 1;
            TESS_TRY(tess_buffer_append(out, p + i, used));
        } else {
            TESS_CHECK(!in_class || (p[i] != '[' && (p[i] != '&' || i + 1 >= n || p[i + 1] != '&')), TESS_E_UNSUPPORTED,
                       "%s: nested character classes in a regex are not supported", what);
            TESS_CHECK(in_class || n - i < 3 || p[i] != '(' || p[i + 1] != '?' || strchr("ix-:=!<>", p[i + 2]) != NULL,
                       TESS_E_UNSUPPORTED, "%s: (?%c in a regex is not supported", what, p[i + 2]);
            TESS_CHECK(in_class || n - i < 2 || p[i] != '(' || p[i + 1] != '*', TESS_E_UNSUPPORTED,
                       "%s: (* in a regex is not supported", what);
            if (!in_class && p[i] == '[') {
                in_class = true;
                /* ']' right after the bracket stands for itself */
                used += i + used < n && p[i + used] == '^';
                used += i + used < n && p[i + used] == ']';
            } else if (in_class && p[i] == ']') {
                in_class = false;
            }
            TESS_TRY(tess_buffer_append(out, p + i, used));
        }
        i += used;
    }
    return TESS_OK;
}

static tess_status compile(tess_regex *regex, const char *pattern, size_t size)
{
    pcre2_compile_context *context = pcre2_compile_context_create(regex->general);
    TESS_CHECK(context != NULL, TESS_E_NOMEM, "%s: no memory for the regex", regex->what);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_set_parens_nest_limit(context, 64);
    int error = 0;
    PCRE2_SIZE at = 0;
    regex->code =
        pcre2_compile((PCRE2_SPTR)pattern, size,
                      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_AUTO_CAPTURE, &error,
                      &at, context);
    pcre2_compile_context_free(context);
    if (regex->code == NULL) {
        char text[120] = "";
        pcre2_get_error_message(error, (PCRE2_UCHAR *)text, sizeof(text));
        return TESS_FAIL(TESS_E_FORMAT, "%s: bad regex (at %zu of its rewritten form): %s", regex->what, (size_t)at,
                         text);
    }
    /* If there is no JIT (another machine, no executable memory), matching is slower, with the same results. */
    pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE);
    return TESS_OK;
}

tess_status tess_regex_create(tess_mem *mem, const char *pattern, size_t size, const char *what, tess_regex **out)
{
    TESS_CHECK(size <= MAX_PATTERN, TESS_E_UNSUPPORTED, "%s: a regex of %zu bytes (at most %d)", what, size,
               MAX_PATTERN);
    void *block;
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(tess_regex), "regex", &block));
    tess_regex *regex = block;
    regex->mem = mem;
    snprintf(regex->what, sizeof(regex->what), "%s", what);
    regex->general = pcre2_general_context_create(pool_alloc, pool_free, mem);
    tess_buffer rewritten = {.mem = mem};
    tess_status status = TESS_OK;
    if (regex->general == NULL)
        status = TESS_FAIL(TESS_E_NOMEM, "%s: no memory for the regex", what);
    if (status == TESS_OK)
        status = rewrite(pattern, size, what, &rewritten);
    if (status == TESS_OK)
        status = compile(regex, rewritten.data != NULL ? rewritten.data : "", rewritten.size);
    tess_buffer_free(&rewritten);
    if (status != TESS_OK) {
        tess_regex_destroy(&regex);
        return status;
    }
    *out = regex;
    return TESS_OK;
}

void tess_regex_destroy(tess_regex **regex)
{
    if (*regex == NULL)
        return;
    pcre2_code_free((*regex)->code);
    pcre2_general_context_free((*regex)->general);
    tess_mem_free((*regex)->mem, *regex);
    *regex = NULL;
}

tess_status tess_regex_scratch_create(tess_mem *mem, tess_regex_scratch **out)
{
    void *block;
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(tess_regex_scratch), "regex scratch", &block));
    tess_regex_scratch *scratch = block;
    scratch->mem = mem;
    scratch->general = pcre2_general_context_create(pool_alloc, pool_free, mem);
    if (scratch->general != NULL) {
        scratch->context = pcre2_match_context_create(scratch->general);
        scratch->match = pcre2_match_data_create(1, scratch->general);
        scratch->stack = pcre2_jit_stack_create(JIT_STACK_MIN, JIT_STACK_MAX, scratch->general);
    }
    if (scratch->context == NULL || scratch->match == NULL) {
        tess_regex_scratch_destroy(&scratch);
        return TESS_FAIL(TESS_E_NOMEM, "no memory to match regexes");
    }
    if (scratch->stack != NULL)
        pcre2_jit_stack_assign(scratch->context, NULL, scratch->stack);
    pcre2_set_match_limit(scratch->context, MATCH_LIMIT);
    pcre2_set_heap_limit(scratch->context, HEAP_LIMIT_KIB);
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
    pcre2_general_context_free((*scratch)->general);
    tess_mem_free((*scratch)->mem, *scratch);
    *scratch = NULL;
}

tess_status tess_regex_find(const tess_regex *regex, tess_regex_scratch *scratch, const char *text, size_t size,
                            size_t from, bool *found, size_t *begin, size_t *end)
{
    const uint32_t options = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
    int n = pcre2_match(regex->code, (PCRE2_SPTR)text, size, from, options, scratch->match, scratch->context);
    if (n == PCRE2_ERROR_JIT_STACKLIMIT)
        n = pcre2_match(regex->code, (PCRE2_SPTR)text, size, from, options | PCRE2_NO_JIT, scratch->match,
                        scratch->context);
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
    TESS_CHECK(*begin >= from && *end > *begin && *end <= size, TESS_E_INVALID,
               "%s: the regex matches outside the text", regex->what);
    return TESS_OK;
}
