#include "data/tokenizer/oniguruma.h"

#include <string.h>

#include "base/text/text.h"
#include "data/tokenizer/unicode_added.h"

enum { MAX_PATTERN = 1 << 16 };

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

/* Whether the name is a script. In Oniguruma \p{Han} means the script of the character itself; PCRE2 also includes the
 * scripts with which a character is used. */
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

/* Rewrites \p{X}, \P{X} or \pX (class NULL), or the escape of a class. A negated property inside a character class is
 * not rewritten, because a class cannot subtract. */
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

/* Copies the escape at p[0] == '\\' to out. *used: its number of bytes in the pattern. */
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
                /* a ']' right after the bracket is an ordinary character */
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

tess_status tess_oniguruma_create(tess_mem *mem, const char *pattern, size_t size, const char *what, tess_regex **out)
{
    TESS_CHECK(size <= MAX_PATTERN, TESS_E_UNSUPPORTED, "%s: a regex of %zu bytes (at most %d)", what, size,
               MAX_PATTERN);
    TESS_AUTO(tess_buffer_free) tess_buffer rewritten = {.mem = mem};
    TESS_TRY(rewrite(pattern, size, what, &rewritten));
    TESS_TRY(tess_regex_create(mem, rewritten.data != NULL ? rewritten.data : "", rewritten.size,
                               TESS_REGEX_UTF8 | TESS_REGEX_MULTILINE | TESS_REGEX_NAMED_ONLY | TESS_REGEX_NOT_EMPTY,
                               what, out));
    tess_regex_speed_up(*out);
    return TESS_OK;
}

tess_status tess_oniguruma_scratch_create(tess_mem *mem, tess_regex_scratch **out)
{
    static const tess_regex_limits limits = {.steps = 20 << 20, .heap_kib = 64 << 10, .jit_stack = 8 << 20};
    return tess_regex_scratch_create(mem, &limits, out);
}
