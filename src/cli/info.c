/* `tessera info`: shows this machine, all options, and the size of a model and its run. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/os/os.h"
#include "base/text/json.h"
#include "device/cuda/cuda_report.h"
#include "device/kernels.h"
#include "engine/model/model_file.h"
#include "nn/model.h"
#include "rl/rl_task.h"
#include "train/text/text_task.h"
#include "plan/memory_table.h"
#include "engine/model/tied_head.h"

typedef struct info_request {
    const char *target; /* a model's folder, a config.json, or a run's configuration; NULL: none */
    /* filters: names of sections, or parts of keys; if there are any, only these options are shown */
    char **overrides, **filters;
    int n_overrides, n_filters;
    const char *word; /* only options with this word in their key or help are shown; NULL: all */
    tess_ranks ranks;
    bool is_counted; /* the number of ranks was given */
} info_request;

static const tess_form_part form[] = {
    {.text = "[{machine:!}tessera {tessera}\n]"},
    {.list = "machine", .text = "{name}: \t{text}\n"},
    {.list = "sections",
     .text = "\n{name}: {help}\n{*options}  {setting:-34} {help}[ ({choices})]"
             "[{changed:!} {[}default [{default}|empty]{]}]\n{/}"},
    {.text =
         "[{model:!}\n{model.path}: {model.family}, {model.parameters:c} parameters in {model.tensors} tensors\n"
         "  hidden {model.hidden}, feed-forward {model.feed_forward}, {model.layers} layers, {model.heads} heads "
         "({model.kv_heads} key/value) of {model.head_size}, vocabulary {model.vocabulary}"
         "[{model.tied:!} (tied head)], {model.positions} positions\n"
         "[{model.experts:!}  {model.experts.number} experts of {model.experts.size} channels in "
         "{model.experts.layers} "
         "layer{model.experts.layers:s}, {model.experts.chosen} for each token[, and {model.experts.shared} channels "
         "of an expert for all]; {model.experts.parameters:c} parameters each, {model.active:c} of all are active "
         "for a token\n]"
         "  weights {model.weight_bytes:B} in bfloat16; training state (master, gradient, two moments) "
         "{model.state_bytes:B} over all ranks\n"
         "{*model.units}  unit {name}\n{*tensors}    {name:-56} {shape:-18} {count:12}\n{/}{/}]"
         "[{no_memory:!}\nmemory: not of 1 rank (-n RANKS): {no_memory}\n]"},
    {.text = tess_memory_form},
    {NULL, NULL}};

/* The options that were asked for: on a line each, and on a narrow terminal on several. */
static const tess_form_part chosen_form[] = {
    {.list = "sections",
     .text =
         "{name}: {help}\n{*options}  {setting:-34} {type}[ ({choices})][{changed:!} {[}default [{default}|empty]{]}]: "
         "{help:6w}\n{/}"},
    {NULL, NULL}};
static const tess_form_part narrow_form[] = {
    {.list = "sections",
     .text = "{name}: {help:2w}\n{*options}  {setting}\n      {type}[\n      ({choices})][{changed:!}\n      "
             "{[}default [{default}|empty]{]}]\n      {help:6w}\n{/}"},
    {NULL, NULL}};
enum { NARROW_BELOW = 100 };

static void add_fact(json_t *machine, const char *name, const char *text)
{
    json_array_append_new(machine, json_pack("{s:s, s:o}", "name", name, "text", tess_json_text(text)));
}

/* Adds what this machine has. A missing driver or GPU is no failure: the CPU can compute. */
static tess_status describe_machine(json_t *report)
{
    char features[512], text[640];
    const tess_kernels *kernels;
    tess_cuda_fact software[TESS_CUDA_SOFTWARE] = {0}, hardware[TESS_CUDA_GPUS + 2] = {0};
    TESS_TRY(tess_kernels_select(NULL, &kernels));
    json_t *machine = json_array();
    snprintf(text, sizeof(text), "%d cores; %s", tess_os_cores(), tess_cpu_features(features, sizeof(features)));
    add_fact(machine, "cpu", text);
    snprintf(text, sizeof(text), "%s (TESSERA_CPU=ref|avx2|avx512|avx512_bf16|amx overrides)", kernels->name);
    add_fact(machine, "kernels", text);
    const int n = tess_cuda_hardware(hardware);
    tess_cuda_software(software);
    for (int i = 0; i < n + TESS_CUDA_SOFTWARE; i++)
        add_fact(machine, (i < n ? &hardware[i] : &software[i - n])->name,
                 (i < n ? &hardware[i] : &software[i - n])->text);
    json_object_update_new(report, json_pack("{s:s, s:o}", "tessera", TESS_VERSION, "machine", machine));
    return TESS_OK;
}

/* Returns the section with this name, or NULL. */
static const tess_option_section *find_section(const char *name)
{
    int n_tables;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    for (int t = 0; t < n_tables; t++)
        if (strcmp(tables[t].section->name, name) == 0)
            return tables[t].section;
    return NULL;
}

/* Whether the words ask for the option: one of them is its section's name, or a part of its key that is no section's
 * name. Without words: always. */
static bool is_meant(const tess_option_section *section, const char *key, char *const *words, int n)
{
    bool any = n == 0;
    for (int i = 0; i < n; i++)
        any = any ||
              (find_section(words[i]) != NULL ? strcmp(words[i], section->name) == 0 : strstr(key, words[i]) != NULL);
    return any;
}

static bool is_chosen(const tess_option_section *section, const tess_option *row, const info_request *r)
{
    return is_meant(section, row->key, r->filters, r->n_filters) &&
           (r->word == NULL || strcasestr(row->key, r->word) != NULL || strcasestr(row->help, r->word) != NULL);
}

static bool chooses(const info_request *r)
{
    return r->n_filters > 0 || r->word != NULL;
}

/* Returns how many options the request chooses. */
static int count_options(const info_request *r)
{
    int n_tables, n_found = 0;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    for (int t = 0; t < n_tables; t++)
        for (int i = 0; i < tables[t].section->n_rows; i++)
            n_found += is_chosen(tables[t].section, &tables[t].section->rows[i], r);
    return n_found;
}

static bool is_word_of_options(char *word)
{
    return count_options(&(info_request){.filters = &word, .n_filters = 1}) > 0;
}

/* Refuses a word that names no section and is in no key: names the nearest section, and all of them. */
static tess_status refuse_word(const char *what, const char *word)
{
    char hint[TESS_HINT_BYTES], all[1024] = "";
    const char *names[64];
    int n_tables;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    for (int t = 0; t < n_tables; t++) {
        names[t] = tables[t].section->name;
        const size_t at = strlen(all);
        snprintf(all + at, sizeof(all) - at, "%s%s", t > 0 ? ", " : "", names[t]);
    }
    return TESS_FAIL(TESS_E_INVALID, "%s%s; the sections are %s", what,
                     tess_options_hint("", word, names, n_tables, "", hint), all);
}

static tess_status check_words(const info_request *r)
{
    char what[256];
    for (int i = 0; i < r->n_filters; i++) {
        snprintf(what, sizeof(what), "no option has '%.60s' in its key, and no section has this name", r->filters[i]);
        if (!is_word_of_options(r->filters[i]))
            return refuse_word(what, r->filters[i]);
    }
    TESS_CHECK(!chooses(r) || count_options(r) > 0, TESS_E_INVALID,
               "--filter: no option%s has '%.60s' in its key or its explanation", r->n_filters > 0 ? " of these" : "",
               r->word != NULL ? r->word : "");
    return TESS_OK;
}

/* Writes the type of an option, and its range where it has one. Returns text. */
static const char *type_of(const tess_option *row, char *text, size_t size)
{
    static const char *const names[] = {
        [TESS_OPTION_BOOL] = "true or false", [TESS_OPTION_INT] = "integer", [TESS_OPTION_BYTES] = "bytes",
        [TESS_OPTION_FLOAT] = "number",       [TESS_OPTION_TEXT] = "text",   [TESS_OPTION_CHOICE] = "choice",
        [TESS_OPTION_LIST] = "list",          [TESS_OPTION_OWN] = "text"};
    const bool is_path = row->is_path;
    if (row->type == TESS_OPTION_INT)
        snprintf(text, size, "integer from %lld to %lld%s%s", (long long)row->least, (long long)row->most,
                 row->zero != NULL ? ", or " : "", row->zero != NULL ? row->zero : "");
    else if (row->type == TESS_OPTION_FLOAT)
        snprintf(text, size, "number from %g to %g", row->min, row->max);
    else
        snprintf(text, size, "%s%s", names[row->type],
                 !is_path                        ? ""
                 : row->type == TESS_OPTION_LIST ? " of paths"
                                                 : ", a path");
    return text;
}

static tess_status describe_option(const tess_option *row, const void *values, json_t *options)
{
    char value[2048], setting[2560], type[128];
    TESS_TRY(tess_options_format(row, values, value, sizeof(value)));
    snprintf(setting, sizeof(setting), "%s=%s", strchr(row->key, '.') + 1, value);
    json_array_append_new(options,
                          json_pack("{s:s, s:o, s:o, s:s, s:s, s:s*, s:s, s:b}", "key", row->key, "value",
                                    tess_json_text(value), "setting", tess_json_text(setting), "type",
                                    type_of(row, type, sizeof(type)), "help", row->help, "choices", row->choices,
                                    "default", row->fallback, "changed", !tess_options_is_default(row, values)));
    return TESS_OK;
}

/* Adds the options that the request asks for, with their values, and whether they differ from the default. */
static tess_status describe_options(const tess_config *config, const info_request *r, json_t *report)
{
    int n_tables;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    json_t *sections = json_array();
    json_object_set_new(report, "sections", sections);
    for (int t = 0; t < n_tables; t++) {
        const tess_option_section *section = tables[t].section;
        json_t *options = json_array();
        json_auto_t *item =
            json_pack("{s:s, s:s, s:o}", "name", section->name, "help", section->help, "options", options);
        for (int i = 0; i < section->n_rows; i++)
            if (is_chosen(section, &section->rows[i], r))
                TESS_TRY(describe_option(&section->rows[i], tess_options_section(&tables[t], config), options));
        if (json_array_size(options) > 0)
            json_array_append(sections, item);
    }
    return TESS_OK;
}

static json_t *describe_units(const tess_model *model)
{
    json_t *units = json_array();
    char shape[128];
    for (int unit = 0; unit < tess_model_n_units(model); unit++) {
        int first, n;
        json_t *tensors = json_array();
        tess_model_unit_params(model, unit, &first, &n);
        for (int i = first; i < first + n; i++) {
            const tess_param *param = tess_model_param(model, i);
            json_array_append_new(tensors, json_pack("{s:s, s:s, s:I}", "name", param->name, "shape",
                                                     tess_shape_format(&param->shape, shape, sizeof(shape)), "count",
                                                     (json_int_t)tess_shape_count(&param->shape)));
        }
        json_array_append_new(units,
                              json_pack("{s:s, s:o}", "name", tess_model_unit_name(model, unit), "tensors", tensors));
    }
    return units;
}

/* Describes the experts of a model, or returns NULL. An expert has parameters in one layer. */
static json_t *describe_experts(const tess_model *model)
{
    const tess_model_config *c = tess_model_get_config(model);
    json_int_t n_layers = 0;
    double count = 0;
    for (int64_t layer = 0; layer < c->n_layers; layer++)
        n_layers += tess_model_config_mixes(c, layer);
    if (n_layers == 0)
        return NULL;
    for (int i = 0; i < tess_model_n_params(model); i++)
        if (tess_model_param(model, i)->idle > 0)
            count += (double)tess_shape_count(&tess_model_param(model, i)->shape);
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:f}", "number", (json_int_t)c->parts.experts.n, "size",
                     (json_int_t)c->parts.experts.size, "layers", n_layers, "chosen",
                     (json_int_t)c->parts.experts.top_k, "shared", (json_int_t)c->parts.experts.shared, "parameters",
                     count / (double)(n_layers * c->parts.experts.n));
}

/* Adds the model described by the config.json at `path`. `folder`: where its weights are; "": nowhere. `run`: the
 * configuration of the run that trains it; NULL: none. */
static tess_status describe_model(tess_mem *mem, const char *path, const char *folder, const tess_config *run,
                                  json_t *report)
{
    tess_model_config c;
    TESS_AUTO(tess_model_destroy) tess_model *model = NULL;
    TESS_TRY(tess_model_config_load(path, &c));
    tess_untie_head(folder, NULL, &c);
    if (run != NULL)
        tess_config_untie_head(run, NULL, &c);
    TESS_TRY(tess_model_create(mem, &c, &model));
    const double total = (double)tess_model_count(model);
    json_object_set_new(
        report, "model",
        json_pack("{s:o, s:s, s:f, s:f, s:o*, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:I, s:f, s:f, s:o}", "path",
                  tess_json_text(path), "family", tess_family_name(c.family), "parameters", total, "active",
                  tess_model_count_active(model), "experts", describe_experts(model), "tensors",
                  tess_model_n_params(model), "hidden", (json_int_t)c.hidden_size, "feed_forward",
                  (json_int_t)c.intermediate_size, "layers", (json_int_t)c.n_layers, "heads", (json_int_t)c.n_heads,
                  "kv_heads", (json_int_t)c.n_kv_heads, "head_size", (json_int_t)c.head_size, "vocabulary",
                  (json_int_t)c.vocab_size, "tied", c.tied, "positions", (json_int_t)c.max_position, "weight_bytes",
                  2 * total, "state_bytes", 16 * total, "units", describe_units(model)));
    return TESS_OK;
}

/* Adds the memory table. If the number of ranks was not given, options that need several ranks are not an error
 * here. */
static tess_status describe_memory(tess_mem *mem, tess_config *config, const info_request *r, json_t *report)
{
    const tess_task_kind *kind = tess_rl_is_meant(config) ? &tess_rl_task_kind : &tess_text_task_kind;
    tess_status status = tess_config_check_step(config, r->ranks.n);
    if (status == TESS_OK && kind->has_own_batches) /* data files of a text task may be added later */
        status = kind->check(config);
    if (status == TESS_OK)
        status = tess_memory_describe(mem, kind->dry, config, r->ranks.n, report);
    if (status != TESS_E_INVALID || r->is_counted)
        return status;
    json_object_set_new(report, "no_memory", tess_json_text(tess_error_message()));
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

static tess_status describe_config(tess_mem *mem, tess_config *config, const info_request *r, json_t *report)
{
    char path[1024];
    TESS_TRY(describe_options(config, r, report));
    if (chooses(r))
        return TESS_OK;
    if (config->model.config[0] == '\0' && config->model.path[0] == '\0')
        return TESS_OK;
    TESS_TRY(tess_config_model_file(config, path, sizeof(path)));
    TESS_TRY(describe_model(mem, path, "", config, report));
    return r->target != NULL || r->n_overrides > 0 ? describe_memory(mem, config, r, report) : TESS_OK;
}

/* Adds the machine, unless there are filters, and then what the request names. */
static tess_status describe(tess_mem *mem, const info_request *r, json_t *report)
{
    TESS_AUTO(tess_config_free) tess_config config = {0};
    char path[1024];
    bool folder = r->target != NULL && tess_os_is_dir(r->target);
    bool json = r->target != NULL && tess_text_ends_with(r->target, ".json");
    TESS_CHECK(!(folder || json) || r->n_overrides == 0, TESS_E_INVALID,
               "'%s': only a run's configuration has options to set", r->overrides[0]);
    TESS_CHECK(!(folder || json) || !chooses(r), TESS_E_INVALID,
               "'%s': only a run's configuration has options to choose from",
               r->n_filters > 0 ? r->filters[0] : "--filter");
    TESS_TRY(check_words(r));
    if (r->target != NULL && strpbrk(r->target, "./") == NULL && !tess_os_is_file(r->target) && !folder) {
        char what[256];
        snprintf(what, sizeof(what), "'%.60s' is no file, no section and no part of a key", r->target);
        return refuse_word(what, r->target);
    }
    if (!chooses(r))
        TESS_TRY(describe_machine(report));
    if (folder) {
        TESS_TRY(tess_model_folder_file(r->target, "config.json", path, sizeof(path)));
        return describe_model(mem, path, r->target, NULL, report);
    }
    if (json)
        return describe_model(mem, r->target, "", NULL, report);
    TESS_TRY(load_config(mem, r, &config));
    return describe_config(mem, &config, r, report);
}

/* Sorts the words into target, overrides and filters. The first word is no target if there is no such file, but a
 * section with this name, or an option with this part in its key. */
static void sort_words(char **words, int n, info_request *r)
{
    const bool is_word = n > 0 && strchr(words[0], '=') == NULL;
    if (is_word && (tess_os_is_file(words[0]) || tess_os_is_dir(words[0]) || !is_word_of_options(words[0]))) {
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

/* Prints the options that were asked for, as wide as the terminal is. */
static tess_status print_chosen(tess_mem *mem, const json_t *report)
{
    tess_buffer text = {.mem = mem};
    const int own = cli_columns(STDOUT_FILENO), columns = own > 0 ? own : TESS_FORM_WIDTH;
    return cli_print_text(tess_form_print(&text, columns < NARROW_BELOW ? narrow_form : chosen_form, columns, report),
                          &text);
}

static int run(tess_mem *mem, int argc, char **argv)
{
    const char *n_ranks = NULL;
    info_request r = {0};
    tess_form_style style = TESS_FORM_TEXT;
    const cli_flag flags[] = {
        {"-n", "RANKS", "processes on this machine: whose memory is predicted (1)", .text = &n_ranks},
        {"--filter", "WORD", "show only options with this word in their key or explanation", .text = &r.word},
        CLI_STYLES(&style)};
    sort_words(argv + 1, cli_parse(argc, argv, &cli_info, flags, sizeof(flags) / sizeof(flags[0])), &r);
    r.is_counted = n_ranks != NULL;
    json_auto_t *report = json_pack("{s:i}", "version", 1);
    tess_status status = cli_count_ranks(n_ranks, &r.ranks);
    if (status == TESS_OK)
        status = describe(mem, &r, report);
    if (status == TESS_OK || style == TESS_FORM_TEXT) { /* people also see what stands before an error */
        tess_status printed = style == TESS_FORM_TEXT && chooses(&r)
                                  ? print_chosen(mem, report)
                                  : cli_report(mem, json_incref(report), form, style, JSON_INDENT(2));
        status = status == TESS_OK ? printed : status;
    }
    return cli_end(status);
}

const cli_command cli_info = {
    "info", "[[CONFIG.yaml] [-n RANKS] [section.key=value ...] [SECTION|WORD ...] | MODEL_DIR | config.json]",
    "show this machine, every option with its value, a model's parameters, the memory of a run\n"
    "SECTION, such as optimizer: only the options of this section, with their types.\n"
    "WORD, such as lr: only options with this in their key.",
    .examples = "tessera info optimizer\n"
                "tessera info --filter 'learning rate'\n"
                "tessera info examples/kjv.yaml -n 4",
    .run = run};
