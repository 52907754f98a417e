/* `tessera info`: shows this machine, all options, and the size of a model and its run. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/text.h"
#include "device/cuda/cuda_report.h"
#include "device/kernels.h"
#include "engine/model/model_file.h"
#include "nn/model.h"
#include "rl/rl_task.h"
#include "train/text/text_task.h"
#include "plan/memory_table.h"
#include "engine/model/tied_head.h"

static void print_facts(const tess_cuda_fact *facts, int n)
{
    for (int i = 0; i < n; i++)
        printf("%s:%*s%s\n", facts[i].name, (int)(8 - strlen(facts[i].name)), "", facts[i].text);
}

/* Reports a missing driver or GPU without failing: the CPU can compute. */
static void print_gpus(void)
{
    tess_cuda_fact software[TESS_CUDA_SOFTWARE] = {0}, hardware[TESS_CUDA_GPUS + 2] = {0};
    print_facts(hardware, tess_cuda_hardware(hardware));
    tess_cuda_software(software);
    print_facts(software, TESS_CUDA_SOFTWARE);
}

static tess_status print_machine(void)
{
    char features[512];
    const tess_kernels *kernels;
    TESS_TRY(tess_kernels_select(NULL, &kernels));
    printf("tessera %s\n", TESS_VERSION);
    printf("cpu:     %d cores; %s\n", tess_os_cores(), tess_cpu_features(features, sizeof(features)));
    printf("kernels: %s (TESSERA_CPU=ref|avx2|avx512|avx512_bf16|amx overrides)\n", kernels->name);
    print_gpus();
    return TESS_OK;
}

/* Prints every option with its value, and the default where it differs. */
static tess_status print_options(const tess_config *config)
{
    int n_tables;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    for (int t = 0; t < n_tables; t++) {
        const tess_option_section *section = tables[t].section;
        const void *values = tess_options_section(&tables[t], config);
        printf("\n%s: %s\n", section->name, section->help);
        for (int i = 0; i < section->n_rows; i++) {
            const tess_option *row = &section->rows[i];
            char value[2048], setting[2560];
            TESS_TRY(tess_options_format(row, values, value, sizeof(value)));
            snprintf(setting, sizeof(setting), "%s=%s", strchr(row->key, '.') + 1, value);
            printf("  %-34s %s", setting, row->help);
            if (row->choices != NULL)
                printf(" (%s)", row->choices);
            if (!tess_options_is_default(row, values))
                printf(" [default %s]", row->fallback[0] != '\0' ? row->fallback : "empty");
            putchar('\n');
        }
    }
    return TESS_OK;
}

/* Prints the model described by the config.json at `path`. `folder`: where its weights are; "": nowhere. `config`:
 * the run that trains it; NULL: none. */
static tess_status print_model(tess_mem *mem, const char *path, const char *folder, const tess_config *run)
{
    tess_model_config config;
    tess_model *model;
    char text[128];
    TESS_TRY(tess_model_config_load(path, &config));
    tess_untie_head(folder, NULL, &config);
    if (run != NULL)
        tess_config_untie_head(run, NULL, &config);
    TESS_TRY(tess_model_create(mem, &config, &model));
    int64_t total = tess_model_count(model);
    printf("\n%s: %s, %s parameters in %d tensors\n", path, tess_family_name(config.family),
           tess_format_count((double)total, text, sizeof(text)), tess_model_n_params(model));
    printf(
        "  hidden %lld, feed-forward %lld, %lld layers, %lld heads (%lld key/value) of %lld, vocabulary %lld%s, %lld "
        "positions\n",
        (long long)config.hidden_size, (long long)config.intermediate_size, (long long)config.n_layers,
        (long long)config.n_heads, (long long)config.n_kv_heads, (long long)config.head_size,
        (long long)config.vocab_size, config.tied ? " (tied head)" : "", (long long)config.max_position);
    char size16[32], size32[32];
    printf("  weights %s in bfloat16; training state (master, gradient, two moments) %s over all ranks\n",
           tess_format_bytes(2.0 * (double)total, size16, sizeof(size16)),
           tess_format_bytes(16.0 * (double)total, size32, sizeof(size32)));
    for (int unit = 0; unit < tess_model_n_units(model); unit++) {
        int first, n;
        tess_model_unit_params(model, unit, &first, &n);
        printf("  unit %s\n", tess_model_unit_name(model, unit));
        for (int i = first; i < first + n; i++) {
            const tess_param *param = tess_model_param(model, i);
            printf("    %-56s %-18s %12lld\n", param->name, tess_shape_format(&param->shape, text, sizeof(text)),
                   (long long)tess_shape_count(&param->shape));
        }
    }
    tess_model_destroy(&model);
    return TESS_OK;
}

/* Prints the memory table. If the number of ranks was not given, options that need several ranks are not an error
 * here. */
static tess_status print_memory(tess_mem *mem, tess_config *config, const tess_ranks *ranks, bool is_counted)
{
    tess_buffer text = {.mem = mem};
    const tess_task_kind *kind = tess_rl_is_meant(config) ? &tess_rl_task_kind : &tess_text_task_kind;
    tess_status status = tess_config_check_step(config, ranks->n);
    if (status == TESS_OK && kind->has_own_batches) /* data files of a text task may be added later */
        status = kind->check(config);
    if (status == TESS_OK)
        status = tess_memory_table(mem, kind->predict_memory, config, ranks->n, &text);
    if (status == TESS_OK)
        printf("%s", (const char *)text.data);
    tess_buffer_free(&text);
    if (status != TESS_E_INVALID || is_counted)
        return status;
    printf("\nmemory: not of 1 rank (-n RANKS): %s\n", tess_error_message());
    tess_error_clear();
    return TESS_OK;
}

/* Loads the configuration, with the defaults of `tessera rl` if the configuration is one of reinforcement learning. */
static tess_status load_config(tess_mem *mem, const char *path, char *const *overrides, int n_overrides,
                               tess_config *config)
{
    TESS_TRY(tess_config_load(mem, path, overrides, n_overrides, config));
    if (!tess_rl_is_meant(config))
        return TESS_OK;
    tess_config_free(config);
    return tess_config_load_over(mem, tess_rl_task_kind.defaults, path, overrides, n_overrides, config);
}

static tess_status print_config(tess_mem *mem, tess_config *config, const tess_ranks *ranks, bool has_words,
                                bool is_counted)
{
    char path[1024];
    TESS_TRY(print_options(config));
    if (config->model.config[0] == '\0' && config->model.path[0] == '\0')
        return TESS_OK;
    TESS_TRY(tess_config_model_file(config, path, sizeof(path)));
    TESS_TRY(print_model(mem, path, "", config));
    return has_words ? print_memory(mem, config, ranks, is_counted) : TESS_OK;
}

/* Prints the machine, then `target`: a model's folder, a config.json, or a run's configuration. NULL: only defaults. */
static tess_status print_about(tess_mem *mem, const char *target, char *const *overrides, int n_overrides,
                               const tess_ranks *ranks, bool is_counted)
{
    tess_config config;
    char path[1024];
    bool folder = target != NULL && tess_os_is_dir(target);
    bool json = target != NULL && tess_text_ends_with(target, ".json");
    TESS_CHECK(!(folder || json) || n_overrides == 0, TESS_E_INVALID,
               "'%s': only a run's configuration has options to set", overrides[0]);
    TESS_TRY(print_machine());
    if (folder) {
        TESS_TRY(tess_model_folder_file(target, "config.json", path, sizeof(path)));
        return print_model(mem, path, target, NULL);
    }
    if (json)
        return print_model(mem, target, "", NULL);
    TESS_TRY(load_config(mem, target, overrides, n_overrides, &config));
    tess_status status = print_config(mem, &config, ranks, target != NULL || n_overrides > 0, is_counted);
    tess_config_free(&config);
    return status;
}

static int run(tess_mem *mem, int argc, char **argv)
{
    const char *n_ranks = NULL;
    tess_ranks ranks = {0};
    const cli_flag flags[] = {
        {"-n", "RANKS", "processes on this machine: whose memory is predicted (1)", .text = &n_ranks}};
    int n = cli_parse(argc, argv, &cli_info, flags, 1);
    char *const *words = argv + 1;
    const char *target = tess_config_take_path(&words, &n);
    tess_status status = cli_count_ranks(n_ranks, &ranks);
    return cli_end(status == TESS_OK ? print_about(mem, target, words, n, &ranks, n_ranks != NULL) : status);
}

const cli_command cli_info = {
    "info", "[[CONFIG.yaml] [-n RANKS] [section.key=value ...] | MODEL_DIR | config.json]",
    "show this machine, every option with its value, a model's parameters, the memory of a run", .run = run};
