#include "config/run_layout.h"

#include <stdio.h>
#include <string.h>

/* The number of shards follows from these and the number of ranks. */
static const char *const keys[TESS_LAYOUT_KEYS] = {"parallelism.shard_strategy",
                                                   "parallelism.data_parallel_replicate_degree",
                                                   "parallelism.tensor_parallel_degree",
                                                   "parallelism.pipeline_parallel_degree",
                                                   "parallelism.pipeline_parallel_schedule",
                                                   "parallelism.pipeline_parallel_layers_per_stage",
                                                   "parallelism.pipeline_parallel_first_stage_less_layers",
                                                   "parallelism.pipeline_parallel_last_stage_less_layers",
                                                   "parallelism.fsdp_unit_blocks",
                                                   "parallelism.fsdp_unit_bytes",
                                                   "parallelism.fsdp_unit_mixed",
                                                   "training.mixed_precision_param",
                                                   "training.mixed_precision_reduce",
                                                   "training.local_batch_size",
                                                   "training.global_batch_size",
                                                   "training.passes",
                                                   "offload.params",
                                                   "offload.grads",
                                                   "offload.optimizer"};

static const tess_option *option_of(const char *key)
{
    int n_tables;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    return tess_options_find(tables, n_tables, key);
}

void tess_run_layout_of(const tess_config *config, tess_run_layout *layout)
{
    for (int i = 0; i < TESS_LAYOUT_KEYS; i++) {
        const tess_option *option = option_of(keys[i]);
        const char *field = (const char *)config + option->offset;
        layout->value[i] = option->type == TESS_OPTION_CHOICE ? *(const int *)(const void *)field
                           : option->type == TESS_OPTION_BOOL ? *(const bool *)field
                                                              : *(const int64_t *)(const void *)field;
    }
}

/* Writes the value as a user would. Returns false if the option cannot have it. */
static bool format_value(const tess_option *option, int64_t value, char *text, size_t size)
{
    if (option->type == TESS_OPTION_BOOL) {
        snprintf(text, size, "%s", value != 0 ? "true" : "false");
        return value == 0 || value == 1;
    }
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
    for (int i = 0; i < TESS_LAYOUT_KEYS; i++)
        if (!format_value(option_of(keys[i]), layout->value[i], text, sizeof(text)))
            return false;
    return true;
}

int tess_run_layout_words(const tess_run_layout *layout, const tess_run_layout *other,
                          char words[TESS_LAYOUT_KEYS][TESS_RUN_LAYOUT_OVERRIDE])
{
    char value[32];
    int n = 0;
    for (int i = 0; i < TESS_LAYOUT_KEYS; i++) {
        if (other != NULL && other->value[i] == layout->value[i])
            continue;
        format_value(option_of(keys[i]), layout->value[i], value, sizeof(value));
        snprintf(words[n++], TESS_RUN_LAYOUT_OVERRIDE, "%s=%s", keys[i], value);
    }
    return n;
}
