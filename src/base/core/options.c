#include "base/core/options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/core/redact.h"
#include "base/core/rng.h"
#include "base/os/os.h"
#include "base/text/json.h"
#include "base/text/list_text.h"
#include "base/text/text.h"

enum { NUMBER_BYTES = 64 };

/* Returns the shortest name that begins with `text`; NULL: none does, or the text is a letter. */
static const char *completed(const char *text, const char *const *names, int n)
{
    const size_t length = strlen(text);
    const char *best = NULL;
    for (int i = 0; i < n && length > 1; i++)
        if (strncmp(names[i], text, length) == 0 && (best == NULL || strlen(names[i]) < strlen(best)))
            best = names[i];
    return best;
}

const char *tess_options_nearest(const char *text, const char *const *names, int n)
{
    const char *best = completed(text, names, n);
    if (best != NULL)
        return best;
    int best_distance = 1 + (int)strlen(text) / 3; /* a name farther away is not taken for a typo */
    for (int i = 0; i < n; i++) {
        int distance = tess_text_distance(text, names[i]);
        if (distance <= best_distance && (best == NULL || distance < best_distance)) {
            best = names[i];
            best_distance = distance;
        }
    }
    return best;
}

const char *tess_options_hint(const char *before, const char *text, const char *const *names, int n,
                              const char *otherwise, char hint[TESS_HINT_BYTES])
{
    const char *nearest = tess_options_nearest(text, names, n);
    if (nearest == NULL)
        return otherwise;
    snprintf(hint, TESS_HINT_BYTES, ": did you mean '%s%s%s'?", before, before[0] != '\0' ? " " : "", nearest);
    return hint;
}

/* Returns the row of a key, and sets its table. NULL: no such key. */
static const tess_option *find(const tess_option_table *tables, int n_tables, const char *key,
                               const tess_option_table **table)
{
    for (int t = 0; t < n_tables; t++)
        for (int i = 0; i < tables[t].section->n_rows; i++)
            if (strcmp(tables[t].section->rows[i].key, key) == 0) {
                *table = &tables[t];
                return &tables[t].section->rows[i];
            }
    return NULL;
}

static void *field_of(const tess_option *option, void *section)
{
    return (char *)section + option->offset;
}

bool tess_options_has(const tess_option_table *tables, int n_tables, const char *key)
{
    const tess_option_table *table;
    return find(tables, n_tables, key, &table) != NULL;
}

tess_status tess_options_choose(const char *what, const char *text, const char *const *names, int n, int *chosen)
{
    char list[512] = ": there are ", hint[TESS_HINT_BYTES];
    size_t at = strlen(list);
    for (int i = 0; i < n; i++)
        if (strcmp(text, names[i]) == 0) {
            *chosen = i;
            return TESS_OK;
        }
    for (int i = 0; i < n && at + 40 < sizeof(list); i++)
        at = tess_text_add(list, sizeof(list), at, "%s%s", i > 0 ? ", " : "", names[i]);
    return TESS_FAIL(TESS_E_INVALID, "unknown %s '%.100s'%s", what, text,
                     tess_options_hint("", text, names, n, list, hint));
}

static const char *leaf_of(const char *key)
{
    const char *dot = strrchr(key, '.');
    return dot != NULL ? dot + 1 : key;
}

const char *tess_options_same_leaf(const tess_option_table *tables, int n_tables, const char *key)
{
    enum { FEW = 3 };
    const char *leaf = leaf_of(key), *first = NULL;
    int n = 0;
    for (const char *word = key; word < leaf; word += strcspn(word, ".") + 1) {
        char name[TESS_TEXT_SIZE];
        snprintf(name, sizeof(name), "%.*s.%.200s", (int)strcspn(word, "."), word, leaf);
        const tess_option_table *table;
        const tess_option *option = find(tables, n_tables, name, &table);
        if (option != NULL)
            return option->key;
    }
    for (int t = 0; t < n_tables; t++)
        for (int i = 0; i < tables[t].section->n_rows; i++)
            if (strcmp(leaf_of(tables[t].section->rows[i].key), leaf) == 0 && n++ == 0)
                first = tables[t].section->rows[i].key;
    return n <= FEW ? first : NULL;
}

tess_status tess_options_refuse(const tess_option_table *tables, int n_tables, const char *key, const char *shown)
{
    enum { MOST = 512, LISTED = 32 };
    const char *names[MOST], *meant = tess_options_same_leaf(tables, n_tables, key);
    int n = 0, chosen;
    for (int t = 0; t < n_tables; t++)
        for (int i = 0; i < tables[t].section->n_rows && n < MOST; i++)
            names[n++] = tables[t].section->rows[i].key;
    if (meant == NULL && n > LISTED)
        meant = tess_options_nearest(key, names, n);
    if (meant != NULL)
        return TESS_FAIL(TESS_E_INVALID, "unknown key '%.100s': did you mean '%s'?", shown, meant);
    if (n > LISTED)
        return TESS_FAIL(TESS_E_INVALID, "unknown key '%.100s': `tessera info` lists every key", shown);
    return tess_options_choose("key", shown, names, n, &chosen);
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

/* Copies a number without the '_' of 10_000, and reads it as a floating-point one. */
static tess_status parse_number(const char *text, char digits[NUMBER_BYTES], double *value)
{
    char *end;
    const char *c = text;
    size_t n = 0;
    for (; *c != '\0' && n + 1 < NUMBER_BYTES; c++)
        if (*c != '_')
            digits[n++] = *c;
    digits[n] = '\0';
    errno = 0;
    *value = strtod(digits, &end);
    bool whole = *c == '\0' && n > 0 && *end == '\0';
    TESS_CHECK(whole && errno == 0 && isfinite(*value), TESS_E_INVALID, "'%.60s' is not a number", text);
    return TESS_OK;
}

static tess_status parse_float(const tess_option *option, const char *text, double *value)
{
    char digits[NUMBER_BYTES], min[NUMBER_BYTES], max[NUMBER_BYTES];
    TESS_TRY(parse_number(text, digits, value));
    TESS_CHECK(*value >= option->min && *value <= option->max, TESS_E_INVALID, "%.60s is outside %s .. %s", text,
               tess_format_double(option->min, min, sizeof(min)), tess_format_double(option->max, max, sizeof(max)));
    return TESS_OK;
}

tess_status tess_options_int(const char *text, int64_t min, int64_t max, int64_t *value)
{
    char digits[NUMBER_BYTES], *end;
    double number;
    TESS_TRY(parse_number(text, digits, &number));
    TESS_CHECK(number == floor(number), TESS_E_INVALID, "'%.60s' is not an integer", text);
    errno = 0;
    long long integer = strtoll(digits, &end, 10);
    bool fits = errno == 0;
    if (*end != '\0') { /* "1e6": a double below 2^63 converts exactly */
        fits = fabs(number) < 0x1p63;
        integer = fits ? (long long)number : 0;
    }
    TESS_CHECK(fits && integer >= min && integer <= max, TESS_E_INVALID, "%.60s is outside %lld .. %lld", text,
               (long long)min, (long long)max);
    *value = integer;
    return TESS_OK;
}

tess_status tess_options_bytes(const char *text, int64_t unit, int64_t min, int64_t max, int64_t *value)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    char digits[NUMBER_BYTES], amount[NUMBER_BYTES];
    size_t n = strspn(text, "0123456789._");
    const char *name = text + n + strspn(text + n, " ");
    bool is_plain = *name == '\0';
    double number, scale = is_plain ? (double)unit : 0;
    for (int i = 0; i < 5; i++)
        scale = strcmp(name, units[i]) == 0 ? exp2(10 * i) : scale;
    if (*name == 'e') { /* 1e9 */
        TESS_TRY(tess_options_int(text, (min + unit - 1) / unit, max / unit, value));
        *value *= unit;
        return TESS_OK;
    }
    TESS_CHECK(scale > 0 && n > 0 && n < sizeof(digits), TESS_E_INVALID,
               "'%.60s' is no number of bytes, KiB, MiB, GiB or TiB: write it as 500 or 1.5GiB", text);
    memcpy(amount, text, n);
    amount[n] = '\0';
    TESS_TRY(parse_number(amount, digits, &number));
    number = is_plain && unit > 1 ? rint(number * scale) : number * scale;
    TESS_CHECK(number == floor(number), TESS_E_INVALID, "'%.60s' is no whole number of bytes", text);
    TESS_CHECK(number >= (double)min && number < 0x1p63 && (int64_t)number <= max, TESS_E_INVALID,
               "%.60s is outside %lld .. %lld bytes", text, (long long)min, (long long)max);
    *value = (int64_t)number;
    return TESS_OK;
}

/* Returns the index of a text of n bytes in "none|full|every_n"; -1: not found. An empty entry of the list matches no
 * text. */
static int find_choice(const char *choices, const char *text, size_t n,
                       int (*compare)(const char *a, const char *b, size_t n))
{
    int index = 0;
    for (const char *c = choices;; index++) {
        const char *end = strchrnul(c, '|');
        if (n > 0 && (size_t)(end - c) == n && compare(c, text, n) == 0)
            return index;
        if (*end == '\0')
            return -1;
        c = end + 1;
    }
}

static tess_status fail_choice(const char *choices, const char *text)
{
    enum { MOST = 16 };
    const char *names[MOST];
    char words[256], hint[TESS_HINT_BYTES], *rest = words;
    int n = 0;
    snprintf(words, sizeof(words), "%s", choices);
    for (char *word = strtok_r(words, "|", &rest); word != NULL && n < MOST; word = strtok_r(NULL, "|", &rest))
        names[n++] = word;
    return TESS_FAIL(TESS_E_INVALID, "'%.60s' is not one of %s%s", text, choices,
                     tess_options_hint("", text, names, n, "", hint));
}

static tess_status parse_choice(const tess_option *option, const char *text, int *value)
{
    int found = find_choice(option->choices, text, strlen(text), strncmp);
    if (found < 0 && option->also != NULL)
        found = find_choice(option->also, text, strlen(text), strncasecmp);
    if (found < 0)
        return fail_choice(option->choices, text);
    *value = found;
    return TESS_OK;
}

static tess_status parse_text(const char *text, size_t n, char *out, size_t size)
{
    TESS_CHECK(n < size, TESS_E_INVALID, "a text of %zu characters; at most %zu fit", n, size - 1);
    memcpy(out, text, n);
    out[n] = '\0';
    return TESS_OK;
}

/* Expands ~ in a path: a shell does not expand the ~ in KEY=~/x. */
static tess_status finish_text(const tess_option *option, char *text, size_t size)
{
    return option->is_path ? tess_os_expand_home(text, size) : TESS_OK;
}

/* Accepts "a, b" and, as YAML writes it, "[a, b]". Skips empty items. */
static tess_status parse_list(const tess_option *option, const char *text, tess_text_list *list)
{
    size_t size = strlen(text);
    bool in_brackets = size >= 2 && text[0] == '[' && text[size - 1] == ']';
    const char *at = in_brackets ? text + 1 : text, *end = in_brackets ? text + size - 1 : text + size;
    char read[TESS_LIST_SIZE + 1][TESS_TEXT_SIZE];
    const char *items[TESS_LIST_SIZE];
    int n = 0;
    while (at < end) {
        TESS_TRY(tess_list_read(&at, end, read[n], sizeof(read[n])));
        if (read[n][0] == '\0')
            continue;
        TESS_CHECK(n < TESS_LIST_SIZE, TESS_E_INVALID, "more than %d items: shorten the list (%s)", TESS_LIST_SIZE,
                   option->help);
        TESS_TRY(finish_text(option, read[n], sizeof(read[n])));
        items[n] = read[n];
        n++;
    }
    tess_text_list made;
    TESS_TRY(tess_text_list_make(items, n, &made));
    tess_text_list_free(list);
    *list = made;
    return TESS_OK;
}

static tess_status parse_int(const tess_option *option, const char *text, int64_t *field)
{
    if (option->zero != NULL && strcasecmp(text, option->zero) == 0) {
        *field = 0;
        return TESS_OK;
    }
    tess_status status = tess_options_int(text, option->least, option->most, field);
    return status == TESS_OK || option->zero == NULL
               ? status
               : tess_fail_context(status, "neither '%s' nor an integer in the range", option->zero);
}

static tess_status set(const tess_option *option, void *section, const char *text)
{
    void *field = field_of(option, section);
    const size_t text_size = option->text_size > 0 ? option->text_size : TESS_TEXT_SIZE;
    switch (option->type) {
    case TESS_OPTION_BOOL:
        return parse_bool(text, field);
    case TESS_OPTION_INT:
        return parse_int(option, text, field);
    case TESS_OPTION_BYTES:
        return tess_options_bytes(text, option->unit > 1 ? option->unit : 1, option->least, option->most, field);
    case TESS_OPTION_FLOAT:
        return parse_float(option, text, field);
    case TESS_OPTION_TEXT:
        TESS_TRY(parse_text(text, strlen(text), field, text_size));
        return finish_text(option, field, text_size);
    case TESS_OPTION_CHOICE:
        return parse_choice(option, text, field);
    case TESS_OPTION_LIST:
        return parse_list(option, text, field);
    case TESS_OPTION_OWN:
        return option->parse(section, text);
    }
    return TESS_FAIL(TESS_E_INTERNAL, "option %s has no type", option->key);
}

tess_status tess_options_defaults(const tess_option_table *tables, int n_tables, void *config)
{
    for (int t = 0; t < n_tables; t++)
        for (int i = 0; i < tables[t].section->n_rows; i++) {
            const tess_option *row = &tables[t].section->rows[i];
            if (row->fallback != NULL)
                TESS_TRY_CTX(set(row, (char *)config + tables[t].offset, row->fallback), "default of %s", row->key);
        }
    return TESS_OK;
}

void tess_options_free(const tess_option_table *tables, int n_tables, void *config)
{
    for (int t = 0; t < n_tables; t++)
        for (int i = 0; i < tables[t].section->n_rows; i++)
            if (tables[t].section->rows[i].type == TESS_OPTION_LIST)
                tess_text_list_free(field_of(&tables[t].section->rows[i], (char *)config + tables[t].offset));
}

tess_status tess_options_copy(const tess_option_table *tables, int n_tables, void *to, const void *from, size_t size)
{
    tess_status status = TESS_OK;
    memcpy(to, from, size);
    for (int t = 0; t < n_tables; t++)
        for (int i = 0; i < tables[t].section->n_rows; i++) {
            tess_text_list *list = field_of(&tables[t].section->rows[i], (char *)to + tables[t].offset);
            if (tables[t].section->rows[i].type != TESS_OPTION_LIST)
                continue;
            const tess_text_list source = *list;
            *list = (tess_text_list){0};
            if (status == TESS_OK)
                status = tess_text_list_make((const char *const *)source.item, source.n, list);
        }
    if (status != TESS_OK) {
        tess_options_free(tables, n_tables, to);
        memset(to, 0, size);
    }
    return status;
}

static uint64_t hash_value(const tess_option *option, const void *section, uint64_t hash)
{
    const void *field = (const char *)section + option->offset;
    switch (option->type) {
    case TESS_OPTION_BOOL:
        return tess_hash_bytes(field, sizeof(bool), hash);
    case TESS_OPTION_INT:
    case TESS_OPTION_BYTES:
        return tess_hash_bytes(field, sizeof(int64_t), hash);
    case TESS_OPTION_FLOAT:
        return tess_hash_bytes(field, sizeof(double), hash);
    case TESS_OPTION_CHOICE:
        return tess_hash_bytes(field, sizeof(int), hash);
    case TESS_OPTION_TEXT:
        return tess_hash_bytes(field, strlen(field) + 1, hash);
    case TESS_OPTION_LIST: {
        const tess_text_list *list = field;
        for (int i = 0; i < list->n; i++)
            hash = tess_hash_bytes(list->item[i], strlen(list->item[i]) + 1, hash);
        return tess_hash_bytes(&list->n, sizeof(list->n), hash);
    }
    case TESS_OPTION_OWN: /* its field and its type are not known */
        break;
    }
    return hash;
}

uint64_t tess_options_hash(const tess_option_table *tables, int n_tables, const void *config, unsigned effects)
{
    uint64_t hash = effects;
    for (int t = 0; t < n_tables; t++)
        for (int i = 0; i < tables[t].section->n_rows; i++) {
            const tess_option *row = &tables[t].section->rows[i];
            if ((row->effect & effects) != 0)
                hash = hash_value(row, tess_options_section(&tables[t], config),
                                  tess_hash_bytes(row->key, strlen(row->key), hash));
        }
    return hash;
}

tess_status tess_options_set(const tess_option_table *tables, int n_tables, void *config, const char *key,
                             const char *text, const char *source)
{
    const tess_option_table *table;
    const tess_option *option = find(tables, n_tables, key, &table);
    if (option == NULL)
        return tess_fail_context(tess_options_refuse(tables, n_tables, key, key), "%s", source);
    void *section = (char *)config + table->offset;
    if (option->type == TESS_OPTION_OWN)
        TESS_TRY_CTX(option->parse(section, text), "%s", source);
    else
        TESS_TRY_CTX(set(option, section, text), "%s: %s", source, key);
    return TESS_OK;
}

tess_status tess_options_format(const tess_option *option, const void *section, char *text, size_t size)
{
    const void *field = (const char *)section + option->offset;
    int n = 0;
    switch (option->type) {
    case TESS_OPTION_BOOL:
        n = snprintf(text, size, "%s", *(const bool *)field ? "true" : "false");
        break;
    case TESS_OPTION_INT:
    case TESS_OPTION_BYTES:
        if (option->zero != NULL && *(const int64_t *)field == 0)
            n = snprintf(text, size, "%s", option->zero);
        else
            n = snprintf(text, size, "%lld%s", (long long)*(const int64_t *)field, option->unit > 1 ? "B" : "");
        break;
    case TESS_OPTION_FLOAT:
        n = snprintf(text, size, "%g", *(const double *)field);
        break;
    case TESS_OPTION_TEXT:
        n = snprintf(text, size, "%s", (const char *)field);
        if (option->is_url)
            tess_redact_urls(text);
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
        char quoted[TESS_LIST_MAX_QUOTED];
        for (int i = 0; i < list->n && (size_t)n < size; i++)
            n += snprintf(text + n, size - (size_t)n, "%s%s", i > 0 ? "," : "", tess_list_quote(list->item[i], quoted));
        break;
    }
    case TESS_OPTION_OWN:
        return TESS_FAIL(TESS_E_INTERNAL, "option %s cannot be formatted", option->key);
    }
    TESS_CHECK(n >= 0 && (size_t)n < size, TESS_E_INVALID, "%s: the value does not fit", option->key);
    return TESS_OK;
}

tess_status tess_options_format_key(const tess_option_table *tables, int n_tables, const void *config, const char *key,
                                    char *text, size_t size)
{
    const tess_option_table *table;
    const tess_option *option = find(tables, n_tables, key, &table);
    TESS_CHECK(option != NULL, TESS_E_INTERNAL, "no option %s", key);
    return tess_options_format(option, tess_options_section(table, config), text, size);
}

bool tess_options_is_default(const tess_option *option, const void *section)
{
    char text[2048];
    const void *field = (const char *)section + option->offset;
    if (option->fallback == NULL)
        return false;
    if (option->type == TESS_OPTION_FLOAT) {
        const double value = *(const double *)field, fallback = strtod(option->fallback, NULL);
        return value <= fallback && value >= fallback;
    }
    if (option->type == TESS_OPTION_BYTES) {
        int64_t fallback = 0;
        return tess_options_bytes(option->fallback, option->unit > 1 ? option->unit : 1, option->least, option->most,
                                  &fallback) == TESS_OK &&
               *(const int64_t *)field == fallback;
    }
    if (tess_options_format(option, section, text, sizeof(text)) != TESS_OK) {
        tess_error_clear();
        return false;
    }
    return strcmp(text, option->fallback) == 0;
}
