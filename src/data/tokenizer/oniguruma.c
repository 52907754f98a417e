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
} rewriter;

/* Rewrites \p{X}, \P{X} or \pX (class NULL), or the escape of a class. A negated property inside a character class is
 * not rewritten, because a class cannot subtract. */
static tess_status rewrite_class(rewriter *r, const char *p, size_t n, const struct escape_class *class, size_t *used)
{
    bool negated = p[1] < 'a', braces = class == NULL && n > 2 && p[2] == '{';
    const char *end = braces ? memchr(p, '}', n) : p + (n > 2 ? 3 : n), *name = braces ? p + 3 : p + 2;
    if (end == NULL)
        return tess_buffer_append(r->out, p, 2);
    *used = class != NULL ? 2 : (size_t)(end - p) + braces;
    if (braces && end > name && name[0] == '^') {
        negated = !negated;
        name++;
    }
    size_t size = (size_t)(end - name);
    TESS_CHECK(class != NULL || size <= 2 || is_script(name, size), TESS_E_UNSUPPORTED,
               "%s: \\p{%.*s} in a regex is not supported: categories and scripts are", r->what, (int)size, name);
    if (r->in_class && negated)
        return tess_buffer_append(r->out, p, *used);
    if (!r->in_class)
        TESS_TRY(tess_buffer_printf(r->out, negated ? "[^" : "["));
    TESS_TRY(class != NULL ? append_class(class, r->out) : append_property(name, size, r->out));
    return r->in_class ? TESS_OK : tess_buffer_append(r->out, "]", 1);
}

/* Copies the escape at p[0] == '\\' to r->out. *used: its number of bytes in the pattern. */
static tess_status rewrite_escape(rewriter *r, const char *p, size_t n, size_t *used)
{
    TESS_CHECK(n >= 2, TESS_E_FORMAT, "%s: the regex ends in a backslash", r->what);
    *used = 2;
    const struct escape_class *class = class_of((char)(p[1] | 0x20));
    if (p[1] == 'p' || p[1] == 'P' || (class != NULL && p[1] != 'H'))
        return rewrite_class(r, p, n, class, used);
    if (!r->in_class && (p[1] == 'b' || p[1] == 'B'))
        return append_border(p[1] == 'B', r->out);
    TESS_CHECK(strchr("HRXKyYGQEC", p[1]) == NULL || p[1] == '\0', TESS_E_UNSUPPORTED,
               "%s: \\%c in a regex is not supported", r->what, p[1]);
    if (p[1] == 'u' && n >= 6) {
        *used = 6;
        return tess_buffer_printf(r->out, "\\x{%.4s}", p + 2);
    }
    return tess_buffer_append(r->out, p, 2);
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
    if (text[end] != '}' || first + second == 0)
        return tess_buffer_append(r->out, p, 1);
    *used = end + 1;
    bool again = text[end + 1] == '+' || (text[end + 1] == '?' && !range);
    if (again) {
        TESS_TRY(tess_buffer_append(r->out, "(?:", 3));
        memmove(r->out->data + r->item + 3, r->out->data + r->item, r->out->size - 3 - r->item);
        memcpy(r->out->data + r->item, "(?:", 3);
    }
    return tess_buffer_printf(r->out, "{%s%.*s%s", first == 0 ? "0" : "", (int)end, text + 1, again ? ")" : "");
}

/* Checks and copies a character that stands for itself, opens or closes something, or repeats. */
static tess_status rewrite_character(rewriter *r, const char *p, size_t n, size_t *used)
{
    const char *what = r->what;
    TESS_CHECK(!r->in_class || (p[0] != '[' && (p[0] != '&' || n < 2 || p[1] != '&')), TESS_E_UNSUPPORTED,
               "%s: nested character classes in a regex, such as [a[b]] or [[:alpha:]], are not supported", what);
    if (!r->in_class && p[0] == '(') {
        TESS_CHECK(n < 3 || p[1] != '?' || strchr("ix-:=!<>", p[2]) != NULL, TESS_E_UNSUPPORTED,
                   "%s: (?%c in a regex is not supported", what, p[2]);
        TESS_CHECK(n < 2 || p[1] != '*', TESS_E_UNSUPPORTED, "%s: (* in a regex is not supported", what);
        /* Oniguruma reads a(?i)b|c as a(?i:b|c), PCRE2 as a(?i:b)|(?i:c). */
        TESS_CHECK(n < 4 || p[1] != '?' || r->out->size == 0 || p[2 + strspn(p + 2, "imx-")] != ')', TESS_E_UNSUPPORTED,
                   "%s: options inside a regex, such as (?i), are not supported; (?i:...) is", what);
        TESS_CHECK(r->depth < MAX_DEPTH, TESS_E_UNSUPPORTED,
                   "%s: parentheses nested more than %d deep in a regex are not supported", what, MAX_DEPTH);
        r->groups[r->depth++] = r->out->size;
    } else if (!r->in_class && p[0] == ')' && r->depth > 0) {
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
    static const tess_regex_limits limits = {.steps = 20 << 20, .heap_kib = 64 << 10, .jit_stack = 8 << 20};
    return tess_regex_scratch_create(mem, &limits, out);
}
