#include <stdio.h>
#include <string.h>

#include "base/core/options.h"
#include "doctor/env/env_impl.h"
#include "doctor/env/env_values.h"
#include "doctor/table/clean.h"

/* The nearest name in the registry that still has an effect; NULL: none is near. The family's prefix does not count, or
 * all its names would be near each other. */
static const char *nearest_name(const tess_env_registry *registry, const char *name, const env_family *family)
{
    const char *names[TESS_TABLE_MOST_ROWS];
    int n = 0;
    for (int i = 0; i < registry->table.n; i++) {
        const tess_env_variable *variable = tess_table_at(&registry->table, i);
        if (variable->state == NULL)
            names[n++] = variable->row.id;
    }
    const char *nearest = tess_options_nearest(name, names, n);
    int own = (int)(strlen(name) - strlen(family->prefix));
    return nearest != NULL && tess_text_distance(name, nearest) <= 1 + own / 4 ? nearest : NULL;
}

static void judge_unknown(const tess_env_registry *registry, tess_env_setting *setting)
{
    const env_family *family = env_family_of(setting->name);
    const char *nearest = nearest_name(registry, setting->name, family);
    /* Names of an open family resemble each other: only a typing slip counts. */
    bool slip = nearest != NULL && tess_text_distance(setting->name, nearest) <= 2;
    if (family->ask != NULL && !slip) {
        setting->grade = TESS_ENV_UNKNOWN;
        snprintf(setting->finding, sizeof(setting->finding), "not in the registry; to check it: %s", family->ask);
        return;
    }
    setting->grade = TESS_ENV_WRONG;
    if (nearest != NULL)
        snprintf(setting->finding, sizeof(setting->finding), "nobody reads a variable of this name: did you mean %s?",
                 nearest);
    else
        snprintf(setting->finding, sizeof(setting->finding), "nobody reads a variable of this name");
}

static void judge_known(tess_env_setting *setting)
{
    const tess_env_variable *known = setting->known;
    char accepted[400], value[80];
    if (known->state != NULL) {
        setting->grade = TESS_ENV_VOID;
        snprintf(setting->finding, sizeof(setting->finding), "%s", known->state);
    } else if (setting->value == NULL) {
        setting->grade = TESS_ENV_FINE;
    } else if (!tess_env_accepts(known->values, setting->value)) {
        setting->grade = TESS_ENV_WRONG;
        snprintf(setting->finding, sizeof(setting->finding), "'%s' is no value of it: %s",
                 tess_clean(setting->value, strlen(setting->value), value, sizeof(value)),
                 tess_env_describe_values(known->values, accepted, sizeof(accepted)));
    } else if (tess_env_is_default(known->fallback, setting->value)) {
        snprintf(setting->finding, sizeof(setting->finding), "says the default again");
    }
}

static void judge(const tess_env_registry *registry, tess_env_report *report)
{
    for (int i = 0; i < report->n_settings; i++) {
        if (report->settings[i].known == NULL)
            judge_unknown(registry, &report->settings[i]);
        else
            judge_known(&report->settings[i]);
    }
}

tess_status tess_env_check(tess_mem *mem, const tess_env_registry *registry, const char *text, size_t size,
                           tess_env_format format, int n_cores, tess_env_report *report)
{
    memset(report, 0, sizeof(*report));
    report->mem = mem;
    TESS_TRY(env_read(registry, text, size, format, report));
    judge(registry, report);
    env_find_conflicts(report, n_cores);
    return TESS_OK;
}

tess_status tess_env_explain(tess_mem *mem, const tess_env_registry *registry, char *const *names, int n,
                             tess_env_report *report)
{
    memset(report, 0, sizeof(*report));
    report->mem = mem;
    TESS_TRY(env_read_names(registry, names, n, report));
    report->n_seen = n;
    judge(registry, report);
    return TESS_OK;
}

int tess_env_n_findings(const tess_env_report *report)
{
    int n = report->n_conflicts;
    for (int i = 0; i < report->n_settings; i++)
        n += report->settings[i].grade >= TESS_ENV_VOID;
    return n;
}

void tess_env_report_free(tess_env_report *report)
{
    tess_mem_free(report->mem, report->settings);
    tess_mem_free(report->mem, report->text);
    memset(report, 0, sizeof(*report));
}
