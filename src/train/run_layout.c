#include "train/run_layout.h"

#include <stdio.h>
#include <string.h>

/* The number of shards follows from these and the number of ranks. */
static const char *const keys[TESS_LAYOUT_KEYS] = {
    "parallelism.shard_strategy",     "parallelism.data_parallel_replicate_degree",
    "training.mixed_precision_param", "training.mixed_precision_reduce",
    "training.local_batch_size",      "training.global_batch_size"};

static const tess_option *option_of(const char *key)
{
    int n_tables;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    for (int t = 0; t < n_tables; t++)
        for (int i = 0; i < tables[t].n_rows; i++)
            if (strcmp(tables[t].rows[i].key, key) == 0)
                return &tables[t].rows[i];
    return NULL;
}

void tess_run_layout_of(const tess_config *config, tess_run_layout *layout)
{
    for (int i = 0; i < TESS_LAYOUT_KEYS; i++) {
        const tess_option *option = option_of(keys[i]);
        const char *field = (const char *)config + option->offset;
        layout->value[i] = option->type == TESS_OPTION_CHOICE ? *(const int *)(const void *)field
                                                              : *(const int64_t *)(const void *)field;
    }
}

/* The text of a choice, "" beyond the last. */
static const char *choice_at(const char *choices, int64_t index, int *length)
{
    for (; index > 0 && *choices != '\0'; index--) {
        choices = strchrnul(choices, '|');
        choices += *choices == '|';
    }
    *length = (int)(strchrnul(choices, '|') - choices);
    return choices;
}

bool tess_run_layout_is_valid(const tess_run_layout *layout)
{
    for (int i = 0; i < TESS_LAYOUT_KEYS; i++) {
        const tess_option *option = option_of(keys[i]);
        int64_t value = layout->value[i];
        int length = 0;
        if (option->type == TESS_OPTION_CHOICE)
            choice_at(option->choices, value, &length);
        bool fits = option->type == TESS_OPTION_CHOICE ? value >= 0 && length > 0
                                                       : (double)value >= option->min && (double)value <= option->max;
        if (!fits)
            return false;
    }
    return true;
}

int tess_run_layout_words(const tess_run_layout *layout, const tess_run_layout *other,
                          char words[TESS_LAYOUT_KEYS][TESS_RUN_LAYOUT_OVERRIDE])
{
    int n = 0, length;
    for (int i = 0; i < TESS_LAYOUT_KEYS; i++) {
        const tess_option *option = option_of(keys[i]);
        if (other != NULL && other->value[i] == layout->value[i])
            continue;
        if (option->type == TESS_OPTION_CHOICE) {
            const char *choice = choice_at(option->choices, layout->value[i], &length);
            snprintf(words[n++], TESS_RUN_LAYOUT_OVERRIDE, "%s=%.*s", keys[i], length, choice);
        } else {
            snprintf(words[n++], TESS_RUN_LAYOUT_OVERRIDE, "%s=%lld", keys[i], (long long)layout->value[i]);
        }
    }
    return n;
}
