#include "base/core/options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"

const char *tess_options_nearest(const char *text, const char *const *names, int n)
{
    const char *best = NULL;
    int best_distance = 1 + (int)strlen(text) / 3; /* a name farther away is not a typo */
    for (int i = 0; i < n; i++) {
        int distance = tess_text_distance(text, names[i]);
        if (distance <= best_distance && (best == NULL || distance < best_distance)) {
            best = names[i];
            best_distance = distance;
        }
    }
    return best;
}

static const tess_option *find(const tess_option_table *tables, int n_tables, const char *key)
{
    for (int t = 0; t < n_tables; t++)
        for (int i = 0; i < tables[t].n_rows; i++)
            if (strcmp(tables[t].rows[i].key, key) == 0)
                return &tables[t].rows[i];
    return NULL;
}

static tess_status fail_unknown(const tess_option_table *tables, int n_tables, const char *key, const char *source)
{
    enum { MOST = 256 };
    const char *names[MOST];
    int n = 0;
    const char *leaf = strrchr(key, '.') != NULL ? strrchr(key, '.') + 1 : key;
    const char *same_leaf = NULL; /* the right name in the wrong section */
    for (int t = 0; t < n_tables; t++)
        for (int i = 0; i < tables[t].n_rows && n < MOST; i++) {
            names[n++] = tables[t].rows[i].key;
            if (strcmp(strrchr(tables[t].rows[i].key, '.') + 1, leaf) == 0)
                same_leaf = tables[t].rows[i].key;
        }
    const char *nearest = same_leaf != NULL ? same_leaf : tess_options_nearest(key, names, n);
    if (nearest != NULL)
        return TESS_FAIL(TESS_E_INVALID, "%s: unknown key '%.100s': did you mean '%s'?", source, key, nearest);
    return TESS_FAIL(TESS_E_INVALID, "%s: unknown key '%.100s': `tessera info` lists every key", source, key);
}

static tess_status parse_bool(const char *text, bool *value)
{
    static const char *const yes[] = {"true", "yes", "on", "1"}, *const no[] = {"false", "no", "off", "0"};
    for (int i = 0; i < 4; i++) {
        if (strcmp(text, yes[i]) == 0 || strcmp(text, no[i]) == 0) {
            *value = strcmp(text, yes[i]) == 0;
            return TESS_OK;
        }
    }
    return TESS_FAIL(TESS_E_INVALID, "'%.60s' is neither true nor false", text);
}

static tess_status parse_number(const tess_option *option, const char *text, double *value)
{
    char clean[64], *end;
    const char *c = text;
    size_t n = 0;
    for (; *c != '\0' && n + 1 < sizeof(clean); c++)
        if (*c != '_') /* 10_000 */
            clean[n++] = *c;
    clean[n] = '\0';
    errno = 0;
    *value = strtod(clean, &end);
    bool whole = *c == '\0' && n > 0 && *end == '\0';
    TESS_CHECK(whole && errno == 0 && isfinite(*value), TESS_E_INVALID, "'%.60s' is not a number", text);
    TESS_CHECK(option->type == TESS_OPTION_FLOAT || *value == floor(*value), TESS_E_INVALID,
               "'%.60s' is not an integer", text);
    TESS_CHECK(*value >= option->min && *value <= option->max, TESS_E_INVALID, "%.60s is outside %.17g .. %.17g", text,
               option->min, option->max);
    return TESS_OK;
}

static tess_status parse_choice(const char *choices, const char *text, int *value)
{
    size_t n = strlen(text);
    int index = 0;
    for (const char *c = choices;; index++) {
        const char *end = strchrnul(c, '|');
        if ((size_t)(end - c) == n && memcmp(c, text, n) == 0) {
            *value = index;
            return TESS_OK;
        }
        if (*end == '\0')
            break;
        c = end + 1;
    }
    return TESS_FAIL(TESS_E_INVALID, "'%.60s' is not one of %s", text, choices);
}

static tess_status parse_text(const char *text, size_t n, char out[TESS_TEXT_SIZE])
{
    TESS_CHECK(n < TESS_TEXT_SIZE, TESS_E_INVALID, "a text of %zu characters; at most %d fit", n, TESS_TEXT_SIZE - 1);
    memcpy(out, text, n);
    out[n] = '\0';
    return TESS_OK;
}

/* Accepts "a, b", and as in YAML "[a, b]". */
static tess_status parse_list(const char *text, tess_text_list *list)
{
    size_t size = strlen(text);
    bool in_brackets = size >= 2 && text[0] == '[' && text[size - 1] == ']';
    const char *at = in_brackets ? text + 1 : text, *last = in_brackets ? text + size - 1 : text + size;
    list->n = 0;
    while (at < last) {
        const char *comma = memchr(at, ',', (size_t)(last - at)), *end = comma != NULL ? comma : last;
        const char *from = at + strspn(at, " ");
        size_t n = from < end ? (size_t)(end - from) : 0;
        while (n > 0 && from[n - 1] == ' ')
            n--;
        TESS_CHECK(list->n < TESS_LIST_SIZE, TESS_E_INVALID, "more than %d items", TESS_LIST_SIZE);
        if (n > 0)
            TESS_TRY(parse_text(from, n, list->item[list->n++]));
        at = comma != NULL ? end + 1 : last;
    }
    return TESS_OK;
}

static tess_status set(const tess_option *option, void *config, const char *text)
{
    void *field = (char *)config + option->offset;
    double number;
    switch (option->type) {
    case TESS_OPTION_BOOL:
        return parse_bool(text, field);
    case TESS_OPTION_INT:
        TESS_TRY(parse_number(option, text, &number));
        *(int64_t *)field = (int64_t)number;
        return TESS_OK;
    case TESS_OPTION_FLOAT:
        return parse_number(option, text, field);
    case TESS_OPTION_TEXT:
        return parse_text(text, strlen(text), field);
    case TESS_OPTION_CHOICE:
        return parse_choice(option->choices, text, field);
    case TESS_OPTION_LIST:
        return parse_list(text, field);
    }
    return TESS_FAIL(TESS_E_INTERNAL, "option %s has no type", option->key);
}

tess_status tess_options_defaults(const tess_option_table *tables, int n_tables, void *config)
{
    for (int t = 0; t < n_tables; t++)
        for (int i = 0; i < tables[t].n_rows; i++)
            TESS_TRY_CTX(set(&tables[t].rows[i], config, tables[t].rows[i].fallback), "default of %s",
                         tables[t].rows[i].key);
    return TESS_OK;
}

tess_status tess_options_set(const tess_option_table *tables, int n_tables, void *config, const char *key,
                             const char *text, const char *source)
{
    const tess_option *option = find(tables, n_tables, key);
    if (option == NULL)
        return fail_unknown(tables, n_tables, key, source);
    TESS_TRY_CTX(set(option, config, text), "%s: %s", source, key);
    return TESS_OK;
}

tess_status tess_options_format(const tess_option *option, const void *config, char *text, size_t size)
{
    const void *field = (const char *)config + option->offset;
    int n = 0;
    switch (option->type) {
    case TESS_OPTION_BOOL:
        n = snprintf(text, size, "%s", *(const bool *)field ? "true" : "false");
        break;
    case TESS_OPTION_INT:
        n = snprintf(text, size, "%lld", (long long)*(const int64_t *)field);
        break;
    case TESS_OPTION_FLOAT:
        n = snprintf(text, size, "%g", *(const double *)field);
        break;
    case TESS_OPTION_TEXT:
        n = snprintf(text, size, "%s", (const char *)field);
        break;
    case TESS_OPTION_CHOICE: {
        const char *choice = option->choices;
        for (int i = *(const int *)field; i > 0; i--)
            choice = strchrnul(choice, '|') + 1;
        n = snprintf(text, size, "%.*s", (int)(strchrnul(choice, '|') - choice), choice);
        break;
    }
    case TESS_OPTION_LIST: {
        const tess_text_list *list = field;
        text[0] = '\0';
        for (int i = 0; i < list->n && (size_t)n < size; i++)
            n += snprintf(text + n, size - (size_t)n, "%s%s", i > 0 ? "," : "", list->item[i]);
        break;
    }
    }
    TESS_CHECK(n >= 0 && (size_t)n < size, TESS_E_INVALID, "%s: the value does not fit", option->key);
    return TESS_OK;
}
