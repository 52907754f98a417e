#include "config/run_layout.h"

#include <stdio.h>
#include <string.h>

#include "base/core/rng.h"
#include "base/text/json.h"

/* An option that decides the layout, and its table. */
typedef struct layout_row {
    const tess_option *option;
    const tess_option_table *table;
} layout_row;

/* The number of shards follows from the other options and the number of ranks. */
static const char follows[] = "parallelism.data_parallel_shard_degree";

/* Lists the other options that decide the layout. A test checks that they fit, and that their values are numbers.
 */
static int list_rows(layout_row rows[TESS_LAYOUT_MOST])
{
    int n_tables, n = 0;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    for (int t = 0; t < n_tables; t++)
        for (int i = 0; i < tables[t].section->n_rows; i++) {
            const tess_option *option = &tables[t].section->rows[i];
            if ((option->effect & TESS_EFFECT_LAYOUT) != 0 && n < TESS_LAYOUT_MOST && strcmp(option->key, follows) != 0)
                rows[n++] = (layout_row){option, &tables[t]};
        }
    return n;
}

static uint64_t hash_keys(const layout_row *rows, int n)
{
    uint64_t hash = 0;
    for (int i = 0; i < n; i++)
        hash = tess_hash_bytes(rows[i].option->key, strlen(rows[i].option->key) + 1, hash);
    return hash;
}

int tess_run_layout_keys(void)
{
    layout_row rows[TESS_LAYOUT_MOST];
    return list_rows(rows);
}

void tess_run_layout_of(const tess_config *config, tess_run_layout *layout)
{
    layout_row rows[TESS_LAYOUT_MOST];
    int n = list_rows(rows);
    *layout = (tess_run_layout){.keys = hash_keys(rows, n)};
    for (int i = 0; i < n; i++) {
        const tess_option *option = rows[i].option;
        const void *field = (const char *)tess_options_section(rows[i].table, config) + option->offset;
        if (option->type == TESS_OPTION_CHOICE)
            layout->value[i] = *(const int *)field;
        else if (option->type == TESS_OPTION_BOOL)
            layout->value[i] = *(const bool *)field;
        else /* an integer, or the bits of a floating-point number */
            memcpy(&layout->value[i], field, sizeof(layout->value[i]));
    }
}

/* Negative zero, which no user writes, counts as impossible. */
static bool format_float(const tess_option *option, int64_t bits, char *text, size_t size)
{
    double value;
    memcpy(&value, &bits, sizeof(value));
    tess_format_double(value, text, size);
    return value >= option->min && value <= option->max && (value != 0 || bits == 0);
}

/* Writes the value as a user would. Returns false if the option cannot have it. */
static bool format_value(const tess_option *option, int64_t value, char *text, size_t size)
{
    if (option->type == TESS_OPTION_BOOL) {
        snprintf(text, size, "%s", value != 0 ? "true" : "false");
        return value == 0 || value == 1;
    }
    if (option->type == TESS_OPTION_FLOAT)
        return format_float(option, value, text, size);
    if (option->type != TESS_OPTION_CHOICE) {
        snprintf(text, size, "%lld", (long long)value);
        return value >= option->least && value <= option->most;
    }
    const char *choice = option->choices;
    for (; value > 0 && *choice != '\0'; value--) {
        choice = strchrnul(choice, '|');
        choice += *choice == '|';
    }
    int length = (int)(strchrnul(choice, '|') - choice);
    snprintf(text, size, "%.*s", length, choice);
    return value == 0 && length > 0;
}

bool tess_run_layout_is_valid(const tess_run_layout *layout)
{
    char text[TESS_RUN_LAYOUT_OVERRIDE];
    layout_row rows[TESS_LAYOUT_MOST];
    int n = list_rows(rows);
    for (int i = 0; i < n; i++)
        if (!format_value(rows[i].option, layout->value[i], text, sizeof(text)))
            return false;
    return layout->keys == hash_keys(rows, n);
}

int tess_run_layout_words(const tess_run_layout *layout, const tess_run_layout *other,
                          char words[TESS_LAYOUT_MOST][TESS_RUN_LAYOUT_OVERRIDE])
{
    char value[32];
    layout_row rows[TESS_LAYOUT_MOST];
    int n = 0, n_rows = list_rows(rows);
    for (int i = 0; i < n_rows; i++) {
        if (other != NULL && other->value[i] == layout->value[i])
            continue;
        format_value(rows[i].option, layout->value[i], value, sizeof(value));
        snprintf(words[n++], TESS_RUN_LAYOUT_OVERRIDE, "%s=%s", rows[i].option->key, value);
    }
    return n;
}
