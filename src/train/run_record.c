#include "train/run_record.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/redact.h"
#include "base/os/machine.h"
#include "base/os/os.h"
#include "base/text/json.h"
#include "device/kernels.h"
#include "tessera/comm.h"

/* ---- The configuration ---- */
static bool is_command(const char *key)
{
    return tess_text_ends_with(key, "command");
}

/* Hides secrets in the items of lists. Arguments of the user's programs may be passwords or tokens of any form, so only
 * the name of the program stays. Of other items, URLs are shown without their secrets, as in single texts. */
static void hide_secrets(json_t *sections)
{
    const char *section, *key;
    json_t *settings, *value, *item;
    size_t i;
    json_object_foreach (sections, section, settings)
        json_object_foreach (settings, key, value)
            json_array_foreach (value, i, item) {
                char text[TESS_TEXT_SIZE];
                if (i > 0 && is_command(key)) {
                    json_string_set(item, "***");
                    continue;
                }
                snprintf(text, sizeof(text), "%s", json_string_value(item) != NULL ? json_string_value(item) : "");
                json_string_set(item, tess_redact_urls(text));
            }
}

/* Returns the defaults of the options whose values differ from them, by section. */
static json_t *defaults_of(const tess_config *config)
{
    int n_tables;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    json_t *sections = json_object();
    for (int t = 0; t < n_tables; t++) {
        const void *values = tess_options_section(&tables[t], config);
        json_t *settings = json_object();
        for (int i = 0; i < tables[t].section->n_rows; i++) {
            const tess_option *row = &tables[t].section->rows[i];
            if (row->fallback != NULL && !tess_options_is_default(row, values))
                json_object_set_new(settings, strchr(row->key, '.') + 1, json_string(row->fallback));
        }
        if (json_object_size(settings) > 0)
            json_object_set(sections, tables[t].section->name, settings);
        json_decref(settings);
    }
    return sections;
}

/* ---- The machine ---- */
static void add_fact(json_t *facts, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void add_fact(json_t *facts, const char *name, const char *format, ...)
{
    char text[640];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    json_array_append_new(facts, json_pack("{s:s, s:o}", "name", name, "text", tess_json_text(text)));
}

static json_t *machine_of(const tess_trainer *t)
{
    char features[512], bytes[32], params[32];
    json_t *facts = json_array();
    const tess_engine *e = t->engine;
    const int n_threads = tess_threads_count(tess_stream_threads(e->stream));
    add_fact(facts, "cpu", "%d cores; %s", tess_os_cores(), tess_cpu_features(features, sizeof(features)));
    add_fact(facts, "memory", "%s", tess_format_bytes((double)tess_os_memory_bytes(), bytes, sizeof(bytes)));
    add_fact(facts, "backend", "%s, %d thread%s a rank", tess_runtime_backend(t->runtime), n_threads,
             n_threads == 1 ? "" : "s");
    add_fact(facts, "kernels", "%s", tess_stream_kernels(e->compute.stream)->name);
    if (e->compute.apart)
        add_fact(facts, "device", "%s", tess_device_get_properties(e->compute.device)->name);
    if (t->kind->program == NULL)
        add_fact(facts, "model", "%s, %s parameters, %lld layers, vocabulary %lld",
                 tess_family_name(t->model_config.family),
                 tess_format_count((double)tess_model_count(e->whole), params, sizeof(params)),
                 (long long)t->model_config.n_layers, (long long)t->model_config.vocab_size);
    return facts;
}

static tess_status write_record(const tess_trainer *t)
{
    json_t *hosts = json_array(), *config = tess_config_to_json(&t->config);
    hide_secrets(config);
    for (int host = 0; host < tess_runtime_hosts(t->runtime) && host < TESS_RECORD_RANKS; host++) {
        char own[256] = "";
        const char *name = tess_runtime_host_name(t->runtime, host);
        if (name[0] == '\0')
            gethostname(own, sizeof(own) - 1); /* a job on one host has no names of hosts */
        json_array_append_new(hosts, tess_json_text(name[0] != '\0' ? name : own));
    }
    json_t *record = json_pack("{s:i, s:s, s:I, s:I, s:i, s:o, s:o, s:o, s:o}", "version", 1, "tessera", TESS_VERSION,
                               "begun_ns", (json_int_t)tess_os_wall_ns(), "step", (json_int_t)t->engine->step, "ranks",
                               tess_runtime_world(t->runtime), "hosts", hosts, "machine", machine_of(t), "defaults",
                               defaults_of(&t->config), "config", config);
    return tess_json_write_in(record, JSON_INDENT(1) | JSON_PRESERVE_ORDER, t->config.job.dump_folder, "run.json");
}

void tess_trainer_record_run(const tess_trainer *t)
{
    if (t->rank != 0 || write_record(t) == TESS_OK)
        return;
    tess_trainer_warn(t, "run.json is not written, so reports lack the configuration: %s", tess_error_message());
    tess_error_clear();
}

/* ---- Memory ---- */
static tess_status write_peaks(const tess_trainer *t, const int64_t *peaks, int n)
{
    tess_buffer *line = tess_metrics_begin_line(t->watch.lines, t->engine->step);
    TESS_TRY(tess_buffer_printf(line, ", \"by_rank\": {"));
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++) {
        TESS_TRY(tess_buffer_printf(line, "%s\"%s\": [", pool > 0 ? ", " : "", tess_pool_name((tess_pool)pool)));
        for (int rank = 0; rank < n; rank++)
            TESS_TRY(tess_buffer_printf(line, "%s%lld", rank > 0 ? ", " : "",
                                        (long long)peaks[rank * TESS_POOL_COUNT + pool]));
        TESS_TRY(tess_buffer_printf(line, "]"));
    }
    TESS_TRY(tess_buffer_printf(line, "}"));
    return tess_metrics_end_line(t->watch.lines);
}

tess_status tess_trainer_record_memory(const tess_trainer *t)
{
    int64_t mine[TESS_POOL_COUNT];
    TESS_AUTO(tess_mem_drop) int64_t *all = NULL;
    const int n = tess_team_size(t->team);
    if (n > TESS_RECORD_RANKS)
        return TESS_OK;
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        mine[pool] = (int64_t)tess_mem_stats(t->mem, (tess_pool)pool).peak_bytes;
    TESS_TRY(TESS_NEW(t->mem, (size_t)n * TESS_POOL_COUNT, "memory of ranks", &all));
    TESS_TRY(tess_all_gather(t->team, mine, all, TESS_POOL_COUNT, TESS_I64, NULL));
    if (t->rank == 0 && write_peaks(t, all, n) != TESS_OK)
        tess_error_clear(); /* a failed report does not fail the run */
    return TESS_OK;
}
