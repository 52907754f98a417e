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

typedef struct info_request {
    const char *target;          /* a model's folder, a config.json, or a run's configuration; NULL: none */
    char **overrides, **filters; /* filters: parts of keys; if there are any, only options with them are shown */
    int n_overrides, n_filters;
    tess_ranks ranks;
    bool is_counted; /* the number of ranks was given */
} info_request;

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

static bool has_part(const char *key, char *const *parts, int n)
{
    bool any = n == 0;
    for (int i = 0; i < n; i++)
        any = any || strstr(key, parts[i]) != NULL;
    return any;
}

/* Returns how many options have one of these parts in their keys. */
static int count_options(char *const *parts, int n)
{
    int n_tables, n_found = 0;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    for (int t = 0; t < n_tables; t++)
        for (int i = 0; i < tables[t].section->n_rows; i++)
            n_found += has_part(tables[t].section->rows[i].key, parts, n);
    return n_found;
}

/* Prints the options that the request asks for, with their values, and the default where it differs. */
static tess_status print_options(const tess_config *config, const info_request *r)
{
    int n_tables;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    for (int t = 0; t < n_tables; t++) {
        const tess_option_section *section = tables[t].section;
        const void *values = tess_options_section(&tables[t], config);
        for (int i = 0, n_shown = 0; i < section->n_rows; i++) {
            const tess_option *row = &section->rows[i];
            char value[2048], setting[2560];
            if (!has_part(row->key, r->filters, r->n_filters))
                continue;
            if (n_shown++ == 0)
                printf("\n%s: %s\n", section->name, section->help);
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
static tess_status print_memory(tess_mem *mem, tess_config *config, const info_request *r)
{
    tess_buffer text = {.mem = mem};
    const tess_task_kind *kind = tess_rl_is_meant(config) ? &tess_rl_task_kind : &tess_text_task_kind;
    tess_status status = tess_config_check_step(config, r->ranks.n);
    if (status == TESS_OK && kind->has_own_batches) /* data files of a text task may be added later */
        status = kind->check(config);
    if (status == TESS_OK)
        status = tess_memory_table(mem, kind->predict_memory, config, r->ranks.n, &text);
    if (status == TESS_OK)
        printf("%s", (const char *)text.data);
    tess_buffer_free(&text);
    if (status != TESS_E_INVALID || r->is_counted)
        return status;
    printf("\nmemory: not of 1 rank (-n RANKS): %s\n", tess_error_message());
    tess_error_clear();
    return TESS_OK;
}

/* Loads the configuration, with the defaults of `tessera rl` if the configuration is one of reinforcement learning. */
static tess_status load_config(tess_mem *mem, const info_request *r, tess_config *config)
{
    TESS_TRY(tess_config_load(mem, r->target, r->overrides, r->n_overrides, config));
    if (!tess_rl_is_meant(config))
        return TESS_OK;
    tess_config_free(config);
    return tess_config_load_over(mem, tess_rl_task_kind.defaults, r->target, r->overrides, r->n_overrides, config);
}

static tess_status print_config(tess_mem *mem, tess_config *config, const info_request *r)
{
    char path[1024];
    TESS_TRY(print_options(config, r));
    if (r->n_filters > 0)
        return TESS_OK;
    if (config->model.config[0] == '\0' && config->model.path[0] == '\0')
        return TESS_OK;
    TESS_TRY(tess_config_model_file(config, path, sizeof(path)));
    TESS_TRY(print_model(mem, path, "", config));
    return r->target != NULL || r->n_overrides > 0 ? print_memory(mem, config, r) : TESS_OK;
}

/* Prints the machine, unless there are filters, and then what the request names. */
static tess_status print_about(tess_mem *mem, const info_request *r)
{
    TESS_AUTO(tess_config_free) tess_config config = {0};
    char path[1024];
    bool folder = r->target != NULL && tess_os_is_dir(r->target);
    bool json = r->target != NULL && tess_text_ends_with(r->target, ".json");
    TESS_CHECK(!(folder || json) || r->n_overrides == 0, TESS_E_INVALID,
               "'%s': only a run's configuration has options to set", r->overrides[0]);
    TESS_CHECK(!(folder || json) || r->n_filters == 0, TESS_E_INVALID,
               "'%s': only a run's configuration has options to choose from", r->filters[0]);
    for (int i = 0; i < r->n_filters; i++)
        TESS_CHECK(count_options(&r->filters[i], 1) > 0, TESS_E_INVALID, "no option has '%.60s' in its key",
                   r->filters[i]);
    if (r->n_filters == 0)
        TESS_TRY(print_machine());
    if (folder) {
        TESS_TRY(tess_model_folder_file(r->target, "config.json", path, sizeof(path)));
        return print_model(mem, path, r->target, NULL);
    }
    if (json)
        return print_model(mem, r->target, "", NULL);
    TESS_TRY(load_config(mem, r, &config));
    return print_config(mem, &config, r);
}

/* Sorts the words into target, overrides and filters. The first word is no target if there is no such file, but an
 * option with this part in its key. */
static void sort_words(char **words, int n, info_request *r)
{
    const bool is_word = n > 0 && strchr(words[0], '=') == NULL;
    if (is_word && (tess_os_is_file(words[0]) || tess_os_is_dir(words[0]) || count_options(words, 1) == 0)) {
        r->target = *words++;
        n--;
    }
    r->overrides = words;
    for (int i = 0; i < n; i++) {
        char *word = words[i];
        if (strchr(word, '=') == NULL)
            continue;
        words[i] = words[r->n_overrides];
        words[r->n_overrides++] = word;
    }
    r->filters = words + r->n_overrides;
    r->n_filters = n - r->n_overrides;
}

static int run(tess_mem *mem, int argc, char **argv)
{
    const char *n_ranks = NULL;
    info_request r = {0};
    const cli_flag flags[] = {
        {"-n", "RANKS", "processes on this machine: whose memory is predicted (1)", .text = &n_ranks}};
    sort_words(argv + 1, cli_parse(argc, argv, &cli_info, flags, 1), &r);
    r.is_counted = n_ranks != NULL;
    tess_status status = cli_count_ranks(n_ranks, &r.ranks);
    return cli_end(status == TESS_OK ? print_about(mem, &r) : status);
}

const cli_command cli_info = {
    "info", "[[CONFIG.yaml] [-n RANKS] [section.key=value ...] [WORD ...] | MODEL_DIR | config.json]",
    "show this machine, every option with its value, a model's parameters, the memory of a run\n"
    "WORD, such as optimizer or lr: only options with this in their key.",
    .run = run};
