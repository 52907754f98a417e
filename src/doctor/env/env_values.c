#include "doctor/env/env_values.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Calls `visit` for each piece of `text` between separators, until it returns false. Returns whether it never did. */
typedef bool (*visit_fn)(const char *piece, size_t size, const void *context);

static bool each(const char *text, size_t size, const char *separators, visit_fn visit, const void *context)
{
    for (size_t at = 0; at <= size;) {
        size_t n = 0;
        while (at + n < size && strchr(separators, text[at + n]) == NULL)
            n++;
        if (!visit(text + at, n, context))
            return false;
        at += n + 1;
    }
    return true;
}

/* Whether `word` is one of "A|B|C". */
static bool is_among(const char *word, size_t size, const char *words)
{
    for (const char *at = words; *at != '\0';) {
        size_t n = strcspn(at, "| ");
        if (n == size && strncasecmp(at, word, n) == 0)
            return true;
        at += n + (at[n] == '|');
        if (*at == ' ')
            break;
    }
    return false;
}

static bool is_list_word(const char *piece, size_t size, const void *words)
{
    while (size > 0 && (*piece == '^' || *piece == ' ')) {
        piece++;
        size--;
    }
    return is_among(piece, size, words);
}

static bool is_list_part(const char *piece, size_t size, const void *words)
{
    const char *colon = memchr(piece, ':', size);
    if (colon != NULL) {
        size -= (size_t)(colon + 1 - piece);
        piece = colon + 1;
    }
    return each(piece, size, ",", is_list_word, words);
}

/* "3", "GPU-5b1c...", "MIG-..." */
static bool is_gpu(const char *piece, size_t size, const void *unused)
{
    (void)unused;
    if (size > 4 && (strncmp(piece, "GPU-", 4) == 0 || strncmp(piece, "MIG-", 4) == 0))
        return true;
    for (size_t i = piece[0] == '-' && size > 1; i < size; i++) /* -1 ends the list */
        if (!isdigit((unsigned char)piece[i]))
            return false;
    return true; /* "" means no GPU, which is accepted */
}

/* Reads "lo..hi" of a rule; a missing end is infinite. */
static void read_range(const char *rule, double *lo, double *hi)
{
    *lo = -1e300;
    *hi = 1e300;
    const char *dots = strstr(rule, ".."), * or = strstr(rule, " or ");
    if (dots == NULL || (or != NULL && dots > or))
        return;
    if (dots != rule)
        *lo = strtod(rule, NULL);
    if (isdigit((unsigned char)dots[2]) || dots[2] == '-')
        *hi = strtod(dots + 2, NULL);
}

static bool is_number(const char *rule, const char *value, bool integer)
{
    double lo, hi;
    char *end;
    errno = 0;
    double number = integer ? (double)strtoll(value, &end, 0) : strtod(value, &end);
    read_range(rule, &lo, &hi);
    return end != value && *end == '\0' && errno == 0 && number >= lo && number <= hi;
}

static bool is_integer_of(const char *piece, size_t size, const void *rule)
{
    char number[32];
    snprintf(number, sizeof(number), "%.*s", (int)(size < sizeof(number) ? size : 0), piece);
    return is_number(rule, number, true);
}

static bool accepts_rule(const char *rule, const char *value)
{
    static const char *const bools = "0|1|true|false|yes|no|on|off|y|n|t|f";
    size_t kind = strcspn(rule, " ");
    const char *rest = rule[kind] == ' ' ? rule + kind + 1 : rule + kind;
    if (strncmp(rule, "bool", kind) == 0)
        return is_among(value, strlen(value), bools);
    if (strncmp(rule, "int", kind) == 0)
        return is_number(rest, value, true);
    if (strncmp(rule, "ints", kind) == 0)
        return each(value, strlen(value), ",", is_integer_of, rest);
    if (strncmp(rule, "number", kind) == 0)
        return is_number(rest, value, false);
    if (strncmp(rule, "one", kind) == 0)
        return is_among(value, strlen(value), rest);
    if (strncmp(rule, "list", kind) == 0)
        return each(value, strlen(value), ";", is_list_part, rest);
    if (strncmp(rule, "gpus", kind) == 0)
        return each(value, strlen(value), ",", is_gpu, NULL);
    return true;
}

static const char *next_rule(const char *rule)
{
    const char * or = strstr(rule, " or ");
    return or != NULL ? or +4 : NULL;
}

bool tess_env_accepts(const char *values, const char *value)
{
    for (const char *rule = values; rule != NULL; rule = next_rule(rule))
        if (accepts_rule(rule, value))
            return true;
    return values == NULL;
}

bool tess_env_are_values(const char *values)
{
    for (const char *rule = values; rule != NULL; rule = next_rule(rule))
        if (!is_among(rule, strcspn(rule, " "), "bool|int|ints|number|one|list|gpus"))
            return false;
    return true;
}

static int describe_rule(const char *rule, char *text, size_t size)
{
    double lo, hi;
    size_t kind = strcspn(rule, " "), length = strlen(rule);
    const char *next = next_rule(rule);
    if (next != NULL)
        length = (size_t)(next - 4 - rule);
    int rest = length > kind ? (int)(length - kind - 1) : 0;
    if (strncmp(rule, "bool", kind) == 0)
        return snprintf(text, size, "0 or 1");
    if (strncmp(rule, "one", kind) == 0)
        return snprintf(text, size, "one of %.*s", rest, rule + kind + 1);
    if (strncmp(rule, "list", kind) == 0)
        return snprintf(text, size, "a list, separated by commas, of %.*s", rest, rule + kind + 1);
    if (strncmp(rule, "gpus", kind) == 0)
        return snprintf(text, size, "indices, or names that begin with GPU- or MIG-, separated by commas");
    const char *what = strncmp(rule, "int", kind) == 0    ? "an integer"
                       : strncmp(rule, "ints", kind) == 0 ? "integers, separated by commas, each"
                                                          : "a number";
    read_range(rule + kind + (rule[kind] == ' '), &lo, &hi);
    if (lo > -1e300 && hi < 1e300)
        return snprintf(text, size, "%s from %.15g to %.15g", what, lo, hi);
    if (lo > -1e300)
        return snprintf(text, size, "%s from %.15g", what, lo);
    return snprintf(text, size, "%s", what);
}

const char *tess_env_describe_values(const char *values, char *text, size_t size)
{
    size_t at = 0;
    text[0] = '\0';
    for (const char *rule = values; rule != NULL && at + 1 < size; rule = next_rule(rule)) {
        if (rule != values)
            at += (size_t)snprintf(text + at, size - at, ", or ");
        if (at + 1 < size)
            at += (size_t)describe_rule(rule, text + at, size - at);
    }
    return text;
}

static const char *canonical(const char *word, size_t size)
{
    if (is_among(word, size, "0|false|no|off|n|f"))
        return "0";
    return is_among(word, size, "1|true|yes|on|y|t") ? "1" : NULL;
}

bool tess_env_is_default(const char *fallback, const char *value)
{
    if (fallback == NULL)
        return false;
    size_t size = strcspn(fallback, " ");
    const char *a = canonical(fallback, size), *b = canonical(value, strlen(value));
    if (a != NULL && b != NULL)
        return strcmp(a, b) == 0;
    return strlen(value) == size && strncasecmp(fallback, value, size) == 0;
}
