/* Reads variables from this process, another process, a file of NAME=VALUE lines, a script, or a list of names. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/variables.h"
#include "base/mem/make_room.h"
#include "doctor/env/env_impl.h"

static tess_status add(tess_env_report *report, const char *name, const char *value, bool computed,
                       const tess_env_variable *known, const env_family *family)
{
    if (value != NULL && strcmp(name, tess_variable_name(TESS_VAR_SECRET)) == 0)
        value = "***";                             /* reports go to other people */
    for (int i = 0; i < report->n_settings; i++) { /* the last assignment wins, like in a shell */
        if (strcmp(report->settings[i].name, name) == 0) {
            report->settings[i].value = value;
            report->settings[i].computed = computed;
            return TESS_OK;
        }
    }
    TESS_CHECK(report->n_settings < TESS_ENV_MOST_SETTINGS, TESS_E_FORMAT,
               "more than %d variables of distributed training: this is no environment", TESS_ENV_MOST_SETTINGS);
    TESS_TRY(tess_mem_make_room(report->mem, TESS_POOL_MISC, (size_t)report->n_settings, sizeof(tess_env_setting),
                                "variables that are set", &report->capacity, &report->settings));
    tess_env_setting *setting = &report->settings[report->n_settings++];
    *setting = (tess_env_setting){.name = name, .value = value, .computed = computed, .known = known};
    if (known == NULL)
        return TESS_OK;
    bool built_in =
        strncmp(known->row.file, ENV_BUILT_IN, sizeof(ENV_BUILT_IN) - 1) == 0 || strcmp(known->row.file, ENV_OURS) == 0;
    setting->of = known->of != NULL ? known->of : family->of;
    setting->source = known->source != NULL || family == NULL || !built_in ? known->source : family->source;
    return TESS_OK;
}

/* A file that holds an environment, while it is read. */
typedef struct env_reading {
    const tess_env_registry *registry;
    tess_env_report *report;
} env_reading;

static tess_status found(void *context, const char *name, const char *value, bool computed)
{
    const env_reading *r = context;
    const tess_env_variable *known = tess_table_find(&r->registry->table, name);
    const env_family *family = env_family_of(r->registry, name);
    r->report->n_seen++;
    return known != NULL || family != NULL ? add(r->report, name, value, computed, known, family) : TESS_OK;
}

static bool is_name(const char *text)
{
    if (!isalpha((unsigned char)*text) && *text != '_')
        return false;
    for (; *text != '\0'; text++)
        if (!isalnum((unsigned char)*text) && *text != '_')
            return false;
    return true;
}

/* Reads "NAME=VALUE\0NAME=VALUE\0", in place. */
static tess_status read_block(char *text, size_t size, env_reading *r)
{
    for (size_t at = 0; at < size;) {
        char *entry = text + at, *equals = strchr(entry, '=');
        at += strlen(entry) + 1;
        if (equals == NULL)
            continue;
        *equals = '\0';
        if (is_name(entry))
            TESS_TRY(found(r, entry, equals + 1, false));
    }
    return TESS_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const tess_env_setting *)a)->name, ((const tess_env_setting *)b)->name);
}

tess_status env_read(const tess_env_registry *registry, const char *text, size_t size, tess_env_format format,
                     tess_env_report *report)
{
    TESS_TRY(tess_mem_alloc(report->mem, TESS_POOL_MISC, size + 1, "an environment", (void **)&report->text));
    memcpy(report->text, text, size);
    report->text[size] = '\0';
    env_reading r = {.registry = registry, .report = report};
    TESS_TRY(format == TESS_ENV_LINES ? env_read_lines(text, size, report->text, found, &r)
                                      : read_block(report->text, size, &r));
    if (report->n_settings > 0)
        qsort(report->settings, (size_t)report->n_settings, sizeof(tess_env_setting), by_name);
    return TESS_OK;
}

tess_status env_read_names(const tess_env_registry *registry, char *const *names, int n, tess_env_report *report)
{
    size_t size = 0;
    for (int i = 0; i < n; i++)
        size += strlen(names[i]) + 1;
    TESS_TRY(tess_mem_alloc(report->mem, TESS_POOL_MISC, size, "names of variables", (void **)&report->text));
    char *name = report->text;
    for (int i = 0; i < n; i++) {
        char *end = memccpy(name, names[i], '\0', strlen(names[i]) + 1), *equals = strchr(name, '=');
        if (equals != NULL)
            *equals = '\0';
        const tess_env_variable *known = tess_table_find(&registry->table, name);
        const env_family *family = env_family_of(registry, name);
        report->n_strangers += known == NULL && family == NULL;
        TESS_TRY(
            add(report, name, equals != NULL ? equals + 1 : tess_variable_value_named(name), false, known, family));
        name = end;
    }
    return TESS_OK;
}

const tess_env_setting *tess_env_find(const tess_env_report *report, const char *name)
{
    for (int i = 0; i < report->n_settings; i++)
        if (strcmp(report->settings[i].name, name) == 0)
            return &report->settings[i];
    return NULL;
}
