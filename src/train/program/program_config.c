/* The configuration of a run of another program: the options that apply, and their defaults. */
#include <stdio.h>
#include <string.h>

#include "train/program/program_task.h"

/* Sections and keys that only apply to models and texts of the library, or to its launcher, and exceptions. */
static const char refused[] =
    " model tokenizer data lora activation_checkpoint recovery elastic validation sample rl rollout reward reference "
    "critic evaluation health job.shards training.passes training.seq_len training.context_leaves training.fp8 "
    "training.gather "
    "training.loss_scale parallelism.fsdp_unit_blocks parallelism.fsdp_unit_bytes parallelism.fsdp_unit_mixed "
    "parallelism.enable_sequence_parallel "
    "parallelism.context_parallel_method parallelism.context_parallel_load_balancer "
    "parallelism.pipeline_parallel_split_points offload.activations "
    "checkpoint.initial_load_path metrics.pipeline_timeline ";
static const char kept[] = " model.save_dtype validation.enable validation.interval ";

static bool is_listed(const char *list, const char *name)
{
    char word[TESS_TEXT_SIZE];
    snprintf(word, sizeof(word), " %s ", name);
    return strstr(list, word) != NULL;
}

static bool divides_model(const tess_option *option)
{
    return option->axis != NULL && tess_axis_kind_of(tess_axis_find(option->axis)) == TESS_AXIS_OF_MODEL;
}

static bool applies(const tess_program *program, const char *section, const tess_option *option)
{
    const char *key = option->key;
    if (program->update != NULL && strcmp(section, "optimizer") == 0)
        return strcmp(key, "optimizer.lr") == 0;
    return is_listed(kept, key) || (!is_listed(refused, section) && !is_listed(refused, key) && !divides_model(option));
}

static tess_status check_keys(const tess_program *program, const tess_config *config)
{
    int n_tables;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    for (int t = 0; t < n_tables; t++) {
        const tess_option_section *section = tables[t].section;
        const void *values = tess_options_section(&tables[t], config);
        for (int i = 0; i < section->n_rows; i++)
            TESS_CHECK(tess_options_is_default(&section->rows[i], values) ||
                           applies(program, section->name, &section->rows[i]),
                       TESS_E_INVALID,
                       "%s does not apply to a program that has a %s of its own (tessera/loop.h): leave it out",
                       section->rows[i].key, strcmp(section->name, "optimizer") == 0 ? "optimizer" : "model");
    }
    return TESS_OK;
}

static tess_status check(const tess_program *program, tess_config *config)
{
    TESS_TRY(check_keys(program, config));
    TESS_CHECK(config->training.local_batch_size == 1, TESS_E_INVALID,
               "training.local_batch_size: %lld; the program decides what a micro-batch is, and "
               "training.global_batch_size is their number in a step: leave it out",
               (long long)config->training.local_batch_size);
    const char *device = tess_config_device(config);
    TESS_CHECK(device == NULL || strcmp(device, "cpu") == 0, TESS_E_UNSUPPORTED,
               "job.device=%s: the loop gives a program weights in the memory of the host: set job.device=cpu", device);
    return tess_config_override(config, "job.device=cpu"); /* whatever TESSERA_DEVICE is */
}

tess_status tess_program_config_load(tess_mem *mem, const tess_program *program, const char *path,
                                     char *const *settings, int n_settings, tess_config *config)
{
    char micro_batches[64];
    snprintf(micro_batches, sizeof(micro_batches), "training.global_batch_size=%lld",
             (long long)program->micro_batches);
    const char *const defaults[] = {"training.local_batch_size=1", "training.mixed_precision_param=float32",
                                    "model.save_dtype=float32", micro_batches, NULL};
    TESS_TRY(tess_config_load_over(mem, defaults, path, settings, n_settings, config));
    tess_status status = check(program, config);
    if (status != TESS_OK)
        tess_config_free(config);
    return status;
}
