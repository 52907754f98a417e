#include "data/tokenizer/oniguruma.h"

#include <stdio.h>
#include <string.h>

#include "base/text/text.h"
#include "data/tokenizer/unicode_added.h"

enum { MAX_PATTERN = 1 << 16, MAX_REWRITTEN = 1 << 20, MAX_DEPTH = 64 };

/* The escapes that stand for classes, as Oniguruma defines them: the inside of a character class, and properties. */
static const struct escape_class {
    char escape;
    const char *inside;
    const char *properties[6];
    const char *outside; /* inside of the class of all other characters, where it has no property */
} escape_classes[] = {
    {'s',
     "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}",
     {NULL},
     "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-"
     "\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{10ffff}"},
    {'w',
     "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{"
     "1f189}",
     {"L", "M", "Nd", "Nl", "Pc"},
     NULL},
    {'d', "", {"Nd"}, NULL},
    {'h', "0-9a-fA-F", {NULL}, NULL},
};
enum { N_ESCAPES = sizeof(escape_classes) / sizeof(escape_classes[0]) };

static const struct escape_class *class_of(char escape)
{
    for (int i = 0; i < N_ESCAPES; i++)
        if (escape_classes[i].escape == escape)
            return &escape_classes[i];
    return NULL;
}

/* Whether the name is a script that is known here. In Oniguruma \p{Han} means the script of the character itself; PCRE2
 * also includes the scripts with which a character is used. */
static bool is_script(const char *name, size_t n)
{
    static const char *const scripts[] = {"Han",  "Hiragana", "Katakana", "Hangul", "Latin",     "Greek",
                                          "Thai", "Cyrillic", "Arabic",   "Hebrew", "Devanagari"};
    for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++)
        if (strlen(scripts[i]) == n && memcmp(scripts[i], name, n) == 0)
            return true;
    return false;
}

/* Appends a property for the inside of a character class, and the characters with it that PCRE2 does not know. */
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

/* Appends \b or \B. Oniguruma's words are those of \w; PCRE2's borders are drawn by other classes. */
static tess_status append_border(bool inverted, tess_buffer *out)
{
    static const char *const parts[2][4] = {{"(?:(?<=[", "])(?![", "])|(?<![", "])(?=["},
                                            {"(?:(?<=[", "])(?=[", "])|(?<![", "])(?!["}};
    for (int i = 0; i < 4; i++) {
        TESS_TRY(tess_buffer_printf(out, "%s", parts[inverted][i]));
        TESS_TRY(append_class(class_of('w'), out));
    }
    return tess_buffer_printf(out, "]))");
}

typedef struct rewriter {
    const char *what; /* name of the pattern in messages */
    tess_buffer *out;
    bool in_class;
    size_t item;              /* offset in `out` of what a quantifier would repeat */
    size_t groups[MAX_DEPTH]; /* offsets in `out` of the open parentheses */
    int depth;
    bool caseless[MAX_DEPTH + 1]; /* whether the option i is on, by depth */
} rewriter;

/* Rewrites \p{X} or \P{X} (class NULL), or the escape of a class. */
static tess_status rewrite_class(rewriter *r, const char *p, size_t n, const struct escape_class *class, size_t *used)
{
    bool negated = p[1] < 'a';
    const char *end = class == NULL ? memchr(p, '}', n) : p + 2, *name = p + 3;
    TESS_CHECK(end != NULL, TESS_E_FORMAT, "%s: \\%c{ in a regex without a }", r->what, p[1]);
    *used = class != NULL ? 2 : (size_t)(end - p) + 1;
    if (class == NULL && end > name && name[0] == '^') {
        negated = !negated;
        name++;
    }
    size_t size = class == NULL ? (size_t)(end - name) : 0;
    TESS_CHECK(class != NULL || size <= 2 || is_script(name, size), TESS_E_UNSUPPORTED,
               "%s: \\p{%.*s} in a regex is not supported: categories and scripts are", r->what, (int)size, name);
    /* Oniguruma and PCRE2 differ about the letters of the other case. */
    TESS_CHECK(!r->caseless[r->depth] || size != 2 || name[0] != 'L' || strchr("ult", name[1]) == NULL,
               TESS_E_UNSUPPORTED, "%s: \\p{%.2s} in (?i:...) in a regex is not supported", r->what, name);
    if (r->in_class && negated) {
        /* A class cannot subtract. */
        TESS_CHECK(class != NULL && class->outside != NULL, TESS_E_UNSUPPORTED,
                   "%s: %.*s inside a character class in a regex is not supported", r->what, (int)*used, p);
        return tess_buffer_append(r->out, class->outside, strlen(class->outside));
    }
    if (!r->in_class)
        TESS_TRY(tess_buffer_printf(r->out, negated ? "[^" : "["));
    TESS_TRY(class != NULL ? append_class(class, r->out) : append_property(name, size, r->out));
    return r->in_class ? TESS_OK : tess_buffer_append(r->out, "]", 1);
}

/* Returns the number of bytes of an escape: \xHH, \x{H}, \ooo, \cA, \k<name>, or a backslash and a character. */
static size_t escape_size(const char *p, size_t n)
{
    const bool hex = p[1] == 'x', octal = p[1] >= '0' && p[1] <= '9';
    if (n > 2 && (((hex || p[1] == 'o') && p[2] == '{') || (p[1] == 'k' && p[2] == '<'))) {
        const char *end = memchr(p, p[2] == '{' ? '}' : '>', n);
        return end != NULL ? (size_t)(end - p) + 1 : n;
    }
    size_t size = p[1] == 'c' && n > 2 ? 3 : 2;
    const char *digits = hex ? "0123456789abcdefABCDEF" : "0123456789";
    while ((hex || octal) && size < 4 && size < n && p[size] != '\0' && strchr(digits, p[size]) != NULL)
        size++;
    return size;
}

/* Copies the escape at p[0] == '\\' to r->out. *used: its number of bytes in the pattern. */
static tess_status rewrite_escape(rewriter *r, const char *p, size_t n, size_t *used)
{
    TESS_CHECK(n >= 2, TESS_E_FORMAT, "%s: the regex ends in a backslash", r->what);
    *used = escape_size(p, n);
    const struct escape_class *class = class_of((char)(p[1] | 0x20));
    bool property = p[1] == 'p' || p[1] == 'P';
    if ((property && n > 2 && p[2] == '{') || (class != NULL && p[1] != 'H'))
        return rewrite_class(r, p, n, class, used);
    if (!r->in_class && (p[1] == 'b' || p[1] == 'B'))
        return append_border(p[1] == 'B', r->out);
    TESS_CHECK(strchr("HRXKyYGQEC", p[1]) == NULL || p[1] == '\0', TESS_E_UNSUPPORTED,
               "%s: \\%c in a regex is not supported", r->what, p[1]);
    if (p[1] == 'v')
        return tess_buffer_printf(r->out, "\\x{b}");
    if (property || p[1] == 'V' || (p[1] == 'x' && *used == 2)) /* these letters stand for themselves */
        return tess_buffer_append(r->out, p + 1, 1);
    if (p[1] == 'u' && n >= 6) {
        *used = 6;
        return tess_buffer_printf(r->out, "\\x{%.4s}", p + 2);
    }
    return tess_buffer_append(r->out, p, *used);
}

/* Copies the interval at p[0] == '{'. In Oniguruma a '+' after an interval repeats what is repeated, as does a '?'
 * after {n}; in PCRE2 they would make the interval possessive or lazy. {,m} is {0,m}. */
static tess_status rewrite_interval(rewriter *r, const char *p, size_t n, size_t *used)
{
    static const char digits[] = "0123456789";
    char text[32];
    snprintf(text, sizeof(text), "%.*s", (int)(n < sizeof(text) - 1 ? n : sizeof(text) - 1), p);
    size_t first = strspn(text + 1, digits), end = 1 + first;
    bool range = text[end] == ',';
    size_t second = range ? strspn(text + end + 1, digits) : 0;
    end += range + second;
    if (text[end] != '}' || first + second == 0) {
        r->item = r->out->size;
        return tess_buffer_append(r->out, p, 1);
    }
    *used = end + 1;
    bool again = text[end + 1] == '+' || (text[end + 1] == '?' && !range);
    if (again) {
        TESS_TRY(tess_buffer_append(r->out, "(?:", 3));
        memmove(r->out->data + r->item + 3, r->out->data + r->item, r->out->size - 3 - r->item);
        memcpy(r->out->data + r->item, "(?:", 3);
    }
    return tess_buffer_printf(r->out, "{%s%.*s%s", first == 0 ? "0" : "", (int)end, text + 1, again ? ")" : "");
}

/* Opens a group, and copies its options. Oniguruma's option m is PCRE2's s. */
static tess_status rewrite_group(rewriter *r, const char *p, size_t n, size_t *used)
{
    const char *what = r->what;
    TESS_CHECK(n < 3 || p[1] != '?' || strchr("imx-:=!<>", p[2]) != NULL, TESS_E_UNSUPPORTED,
               "%s: (?%c in a regex is not supported", what, p[2]);
    TESS_CHECK(n < 2 || p[1] != '*', TESS_E_UNSUPPORTED, "%s: (* in a regex is not supported", what);
    TESS_CHECK(r->depth < MAX_DEPTH, TESS_E_UNSUPPORTED,
               "%s: parentheses nested more than %d deep in a regex are not supported", what, MAX_DEPTH);
    const size_t begin = r->out->size;
    bool caseless = r->caseless[r->depth], on = true;
    *used = n > 1 && p[1] == '?' ? 2 : 1;
    TESS_TRY(tess_buffer_append(r->out, p, *used));
    for (; *used > 1 && *used < n && p[*used] != '\0' && strchr("imx-", p[*used]) != NULL; ++*used) {
        const char option = p[*used];
        on = on && option != '-';
        caseless = option == 'i' ? on : caseless;
        TESS_TRY(tess_buffer_append(r->out, option == 'm' ? "s" : &option, 1));
    }
    if (*used > 2 && *used < n && p[*used] == ')') {
        /* Oniguruma reads a(?i)b|c as a(?i:b|c), PCRE2 as a(?i:b)|(?i:c). */
        TESS_CHECK(begin == 0, TESS_E_UNSUPPORTED,
                   "%s: options inside a regex, such as (?i), are not supported; (?i:...) is", what);
        r->caseless[r->depth] = caseless;
    }
    r->groups[r->depth++] = begin;
    r->caseless[r->depth] = caseless;
    return TESS_OK;
}

/* Checks and copies a character that stands for itself, opens or closes something, or repeats. */
static tess_status rewrite_character(rewriter *r, const char *p, size_t n, size_t *used)
{
    TESS_CHECK(!r->in_class || (p[0] != '[' && (p[0] != '&' || n < 2 || p[1] != '&')), TESS_E_UNSUPPORTED,
               "%s: nested character classes in a regex, such as [a[b]] or [[:alpha:]], are not supported", r->what);
    if (!r->in_class && p[0] == '(')
        return rewrite_group(r, p, n, used);
    if (!r->in_class && p[0] == ')' && r->depth > 0) {
        r->item = r->groups[--r->depth];
    } else if (!r->in_class && p[0] == '[') {
        r->in_class = true;
        r->item = r->out->size;
        /* a ']' right after the bracket is an ordinary character */
        *used += n > *used && p[*used] == '^';
        *used += n > *used && p[*used] == ']';
    } else if (r->in_class) {
        r->in_class = p[0] != ']';
    } else if (strchr("*+?|", p[0]) == NULL && ((unsigned char)p[0] & 0xc0) != 0x80) {
        r->item = r->out->size;
    }
    return tess_buffer_append(r->out, p, *used);
}

static tess_status rewrite(rewriter *r, const char *p, size_t n)
{
    for (size_t i = 0, used; i < n; i += used) {
        used = 1;
        TESS_CHECK(r->out->size < MAX_REWRITTEN, TESS_E_UNSUPPORTED, "%s: a regex with too many classes", r->what);
        if (p[i] == '\\') {
            r->item = r->in_class ? r->item : r->out->size;
            TESS_TRY(rewrite_escape(r, p + i, n - i, &used));
        } else if (!r->in_class && p[i] == '{') {
            TESS_TRY(rewrite_interval(r, p + i, n - i, &used));
        } else {
            TESS_TRY(rewrite_character(r, p + i, n - i, &used));
        }
    }
    return TESS_OK;
}

tess_status tess_oniguruma_create(tess_mem *mem, const char *pattern, size_t size, const char *what, tess_regex **out)
{
    TESS_CHECK(size <= MAX_PATTERN, TESS_E_UNSUPPORTED, "%s: a regex of %zu bytes (at most %d)", what, size,
               MAX_PATTERN);
    TESS_AUTO(tess_buffer_free) tess_buffer rewritten = {.mem = mem};
    rewriter r = {.what = what, .out = &rewritten};
    TESS_TRY(rewrite(&r, pattern, size));
    TESS_TRY(tess_regex_create(mem, rewritten.data != NULL ? rewritten.data : "", rewritten.size,
                               TESS_REGEX_UTF8 | TESS_REGEX_MULTILINE | TESS_REGEX_NAMED_ONLY, what, out));
    tess_regex_speed_up(*out);
    return TESS_OK;
}

tess_status tess_oniguruma_scratch_create(tess_mem *mem, tess_regex_scratch **out)
{
    /* The heap is for a word of 1 MiB of a pattern that keeps state for each letter. */
    static const tess_regex_limits limits = {.steps = 20 << 20, .heap_kib = 512 << 10, .jit_stack = 8 << 20};
    return tess_regex_scratch_create(mem, &limits, out);
}
