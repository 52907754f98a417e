#include "doctor/env/env_values.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Calls `visit` for each piece of `text` between separators until `visit` returns false. Returns whether `visit`
 * accepted all pieces. */
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

/* Whether `word` is an element of "A|B|C". */
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

/* Returns "1" or "0" for a word that means yes or no, or NULL for any other word. */
static const char *canonical(const char *word, size_t size)
{
    if (is_among(word, size, "0|false|no|off|n|f"))
        return "0";
    return is_among(word, size, "1|true|yes|on|y|t") ? "1" : NULL;
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

static bool is_other_word(const char *piece, size_t size, const void *words)
{
    return !is_among(piece, size, words);
}

/* Whether the text names a GPU: "3", "GPU-5b1c...", "MIG-..." */
static bool is_gpu(const char *piece, size_t size, TESS_UNUSED const void *unused)
{
    if (size > 4 && (strncmp(piece, "GPU-", 4) == 0 || strncmp(piece, "MIG-", 4) == 0))
        return true;
    for (size_t i = piece[0] == '-' && size > 1; i < size; i++) /* -1 ends the list */
        if (!isdigit((unsigned char)piece[i]))
            return false;
    return true; /* "" is accepted: it means no GPU */
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

/* ---- the kinds of rules; `rest` is what follows the kind's name ---- */
static bool accepts_bool(TESS_UNUSED const char *rest, const char *value)
{
    return canonical(value, strlen(value)) != NULL;
}

static bool accepts_on(const char *rest, const char *value)
{
    return accepts_bool(rest, value) && *canonical(value, strlen(value)) == '1';
}

static bool accepts_off(const char *rest, const char *value)
{
    return accepts_bool(rest, value) && *canonical(value, strlen(value)) == '0';
}

static bool accepts_int(const char *rest, const char *value)
{
    return is_number(rest, value, true);
}

static bool accepts_ints(const char *rest, const char *value)
{
    return each(value, strlen(value), ",", is_integer_of, rest);
}

static bool accepts_number(const char *rest, const char *value)
{
    return is_number(rest, value, false);
}

static bool accepts_one(const char *rest, const char *value)
{
    return is_among(value, strlen(value), rest);
}

static bool accepts_list(const char *rest, const char *value)
{
    return each(value, strlen(value), ";", is_list_part, rest);
}

static bool accepts_gpus(const char *rest, const char *value)
{
    return each(value, strlen(value), ",", is_gpu, rest);
}

static bool accepts_lacks(const char *rest, const char *value)
{
    return *value != '^' && each(value, strlen(value), ",;:", is_other_word, rest);
}

static bool accepts_has(const char *rest, const char *value)
{
    return *value != '^' && !each(value, strlen(value), ",;:", is_other_word, rest);
}

static const struct kind {
    const char *name;
    bool (*accepts)(const char *rest, const char *value);
    const char *means; /* beginning of the sentence for people; the rest of the rule's name is appended */
    enum { NOTHING, WORDS, RANGE } detail;
} kinds[] = {
    {"bool", accepts_bool, "0 or 1", NOTHING},
    {"on", accepts_on, "1", NOTHING},
    {"off", accepts_off, "0", NOTHING},
    {"int", accepts_int, "an integer", RANGE},
    {"ints", accepts_ints, "integers, separated by commas, each", RANGE},
    {"number", accepts_number, "a number", RANGE},
    {"one", accepts_one, "one of ", WORDS},
    {"list", accepts_list, "a list, separated by commas, of ", WORDS},
    {"has", accepts_has, "a list with one of ", WORDS},
    {"lacks", accepts_lacks, "a list without any of ", WORDS},
    {"gpus", accepts_gpus, "indices, or names that begin with GPU- or MIG-, separated by commas", NOTHING},
};

/* Finds the kind of a rule, and the text after the kind's name. Returns NULL if there is no such kind. */
static const struct kind *kind_of(const char *rule, const char **rest)
{
    size_t n = strcspn(rule, " ");
    *rest = rule[n] == ' ' ? rule + n + 1 : rule + n;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strlen(kinds[i].name) == n && strncmp(kinds[i].name, rule, n) == 0)
            return &kinds[i];
    return NULL;
}

static const char *next_rule(const char *rule)
{
    const char * or = strstr(rule, " or ");
    return or != NULL ? or +4 : NULL;
}

bool tess_env_accepts(const char *values, const char *value)
{
    for (const char *rule = values, *rest; rule != NULL; rule = next_rule(rule))
        if (kind_of(rule, &rest)->accepts(rest, value))
            return true;
    return values == NULL;
}

bool tess_env_are_values(const char *values)
{
    for (const char *rule = values, *rest; rule != NULL; rule = next_rule(rule))
        if (kind_of(rule, &rest) == NULL)
            return false;
    return true;
}

/* Formats the range of numbers of a rule, such as " from 0 to 31"; "" if it has none. */
static void describe_range(const char *rest, char *text, size_t size)
{
    double lo, hi;
    read_range(rest, &lo, &hi);
    text[0] = '\0';
    if (lo > -1e300 && hi < 1e300)
        snprintf(text, size, " from %.15g to %.15g", lo, hi);
    else if (lo > -1e300)
        snprintf(text, size, " from %.15g", lo);
}

static int describe_rule(const char *rule, char *text, size_t size)
{
    const char *rest;
    const struct kind *kind = kind_of(rule, &rest);
    const char *end = strstr(rest, " or ");
    char range[64] = "";
    if (kind->detail == RANGE)
        describe_range(rest, range, sizeof(range));
    int n_words = kind->detail == WORDS ? (int)(end != NULL ? end - rest : (ptrdiff_t)strlen(rest)) : 0;
    return snprintf(text, size, "%s%.*s%s", kind->means, n_words, rest, range);
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
