#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem/make_room.h"
#include "doctor/env/env_impl.h"

static tess_status add(tess_env_report *report, const char *name, const char *value, const tess_env_variable *known,
                       const env_family *family)
{
    for (int i = 0; i < report->n_settings; i++) { /* as in a shell, the last one wins */
        if (strcmp(report->settings[i].name, name) == 0) {
            report->settings[i].value = value;
            return TESS_OK;
        }
    }
    TESS_TRY(tess_mem_make_room(report->mem, TESS_POOL_MISC, (size_t)report->n_settings, sizeof(tess_env_setting),
                                "variables that are set", &report->capacity, &report->settings));
    tess_env_setting *setting = &report->settings[report->n_settings++];
    *setting = (tess_env_setting){.name = name, .value = value, .known = known};
    if (known == NULL)
        return TESS_OK;
    bool built_in = strcmp(known->row.file, ENV_BUILT_IN) == 0;
    setting->of = known->of != NULL ? known->of : family->of;
    setting->source = known->source != NULL || family == NULL || !built_in ? known->source : family->source;
    return TESS_OK;
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

/* Strips a line of a script or of `env` in place: `export` before the name, quotes around the value, and a comment
 * after it. */
static char *strip_line(char *line)
{
    line += strspn(line, " \t");
    if (strncmp(line, "export ", 7) == 0)
        line += 7;
    line += strspn(line, " \t");
    line[strcspn(line, "\r")] = '\0';
    char *value = strchr(line, '=');
    if (value == NULL)
        return line;
    value++;
    if (*value == '"' || *value == '\'') {
        char *end = strchr(value + 1, *value);
        if (end != NULL)
            *end = '\0';
        memmove(value, value + 1, strlen(value + 1) + 1);
    } else {
        char *comment = strstr(value, " #");
        if (comment != NULL)
            *comment = '\0';
        for (size_t n = strlen(value); n > 0 && isspace((unsigned char)value[n - 1]); n--)
            value[n - 1] = '\0';
    }
    return line;
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
    for (size_t i = 0; i < size && format == TESS_ENV_LINES; i++)
        if (report->text[i] == '\n')
            report->text[i] = '\0';
    for (size_t at = 0; at < size;) {
        char *line = report->text + at;
        at += strlen(line) + 1;
        if (format == TESS_ENV_LINES)
            line = strip_line(line);
        char *equals = strchr(line, '=');
        if (equals == NULL)
            continue;
        *equals = '\0';
        if (!is_name(line))
            continue;
        report->n_seen++;
        const tess_env_variable *known = tess_table_find(&registry->table, line);
        const env_family *family = env_family_of(line);
        if (known != NULL || family != NULL)
            TESS_TRY(add(report, line, equals + 1, known, family));
    }
    if (report->n_settings > 0)
        qsort(report->settings, (size_t)report->n_settings, sizeof(tess_env_setting), by_name);
    return TESS_OK;
}

tess_status env_read_names(const tess_env_registry *registry, char *const *names, int n, tess_env_report *report)
{
    for (int i = 0; i < n; i++) {
        const tess_env_variable *known = tess_table_find(&registry->table, names[i]);
        const env_family *family = env_family_of(names[i]);
        TESS_CHECK(known != NULL || family != NULL, TESS_E_INVALID,
                   "%.100s: no library of distributed training is known to read a variable of this name", names[i]);
        TESS_TRY(add(report, names[i], getenv(names[i]), known, family));
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
