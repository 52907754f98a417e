#include "config/run_layout.h"

#include <string.h>

#include "base/text/json.h"
#include "base/text/text.h"

/* The number of shards follows from the other options and the number of ranks. */
static const char follows[] = "parallelism.data_parallel_shard_degree";

/* Writes "section.key=value" and a NUL, or nothing if there is no room. A test checks that lists that a run accepts
 * have room. Returns the end. */
static size_t add_word(const tess_option *option, const void *section, char *text, size_t at)
{
    enum { ROOM = TESS_RUN_LAYOUT_BYTES - 1 };
    const size_t value = tess_text_add(text, ROOM, at, "%s=", option->key);
    tess_status status = TESS_OK;
    if (option->type == TESS_OPTION_FLOAT) /* keeps all digits */
        tess_format_double(*(const double *)(const void *)((const char *)section + option->offset), text + value,
                           ROOM - value);
    else
        status = tess_options_format(option, section, text + value, ROOM - value);
    if (status == TESS_OK)
        return value + strlen(text + value) + 1;
    tess_error_clear();
    return at;
}

void tess_run_layout_of(const tess_config *config, tess_run_layout *layout)
{
    int n_tables;
    size_t at = 0;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    for (int t = 0; t < n_tables; t++)
        for (int i = 0; i < tables[t].section->n_rows; i++) {
            const tess_option *option = &tables[t].section->rows[i];
            if ((option->effect & TESS_EFFECT_LAYOUT) != 0 && strcmp(option->key, follows) != 0)
                at = add_word(option, tess_options_section(&tables[t], config), layout->text, at);
        }
    memset(layout->text + at, 0, sizeof(layout->text) - at);
}

/* Valid words make a configuration that has the same layout. */
bool tess_run_layout_is_valid(const tess_run_layout *layout)
{
    int n_tables;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    TESS_AUTO(tess_config_free) tess_config config = {0};
    tess_run_layout again;
    const char *end = layout->text + sizeof(layout->text);
    bool valid = end[-1] == '\0' && tess_options_defaults(tables, n_tables, &config) == TESS_OK;
    for (const char *word = layout->text; valid && word < end && *word != '\0'; word += strlen(word) + 1)
        valid = tess_config_override(&config, word) == TESS_OK;
    tess_error_clear();
    tess_run_layout_of(&config, &again);
    return valid && memcmp(&again, layout, sizeof(again)) == 0;
}

int tess_run_layout_words(const tess_run_layout *layout, const tess_run_layout *other,
                          const char *words[TESS_LAYOUT_MOST])
{
    int n = 0;
    const char *before = other != NULL ? other->text : "";
    for (const char *word = layout->text; *word != '\0' && n < TESS_LAYOUT_MOST; word += strlen(word) + 1) {
        if (strcmp(word, before) != 0)
            words[n++] = word;
        before += other != NULL ? strlen(before) + 1 : 0;
    }
    return n;
}
