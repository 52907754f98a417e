/* Adds findings of checks to a table, with their outcome and text. */
#include <stdarg.h>
#include <string.h>

#include "doctor/data.h"
#include "doctor/probe/probe_impl.h"
#include "doctor/table/clean.h"

bool tess_probe_wanted(const char *only, const char *name)
{
    size_t n = strlen(name);
    if (only == NULL)
        return true;
    for (const char *at = only; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, n) == 0 && (at[n] == '\0' || at[n] == ','))
            return true;
    }
    return false;
}

/* Writes outcome and text. The text is cleaned, because names of processes and folders may hold any character. */
static void say(tess_probe_finding *finding, tess_probe_outcome outcome, const char *format, va_list args)
{
    char text[TESS_PROBE_TEXT_BYTES];
    vsnprintf(text, sizeof(text), format, args);
    finding->outcome = outcome;
    tess_clean(text, strlen(text), finding->text, sizeof(finding->text));
}

void probe_say(tess_probe_finding *finding, tess_probe_outcome outcome, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(finding, outcome, format, args);
    va_end(args);
}

tess_probe_finding *probe_begin(tess_probe_findings *findings, tess_probe_group group, const char *name,
                                const char *only)
{
    if (!tess_probe_wanted(only, name) || findings->n == TESS_PROBE_MOST)
        return NULL;
    tess_probe_finding *finding = &findings->at[findings->n++];
    *finding = (tess_probe_finding){.group = group};
    snprintf(finding->name, sizeof(finding->name), "%s", name);
    return finding;
}

void tess_probe_add(tess_probe_findings *findings, tess_probe_group group, const char *name, tess_probe_outcome outcome,
                    const char *format, ...)
{
    va_list args;
    tess_probe_finding *finding = probe_begin(findings, group, name, NULL);
    if (finding == NULL)
        return;
    va_start(args, format);
    say(finding, outcome, format, args);
    va_end(args);
}

const char *tess_probe_group_name(tess_probe_group group)
{
    static const char *const names[TESS_PROBE_GROUPS] = {
        [TESS_PROBE_HOST] = "host",
        [TESS_PROBE_GPU] = "gpu",
        [TESS_PROBE_RANKS] = "ranks",
        [TESS_PROBE_CONFIG] = "config",
    };
    return names[group];
}

/* ---- Checks ---- */
/* Reads the next row of checks.yaml. `at`: where the row before it ends; NULL: the first one. Returns where it ends, or
 * NULL after the last one. */
static const char *next_check(const char *at, char group[8], tess_probe_check *check)
{
    for (at = at != NULL ? at : (const char *)tess_data_checks; *at != '\0';) {
        int n = sscanf(at, "- [%7[a-z], %23[^,], \"%127[^\"]\", \"%127[^\"]\", \"%127[^\"]\"]", group, check->name,
                       check->looks_at, check->threshold, check->fix);
        at += strcspn(at, "\n");
        at += *at == '\n';
        if (n == 5)
            return at;
    }
    return NULL;
}

bool tess_probe_check_at(tess_probe_group group, int i, tess_probe_check *check)
{
    char name[8];
    for (const char *at = NULL; (at = next_check(at, name, check)) != NULL;)
        if (strcmp(name, tess_probe_group_name(group)) == 0 && i-- == 0)
            return true;
    return false;
}

bool tess_probe_check_find(const char *name, tess_probe_check *check)
{
    char group[8];
    for (const char *at = NULL; (at = next_check(at, group, check)) != NULL;)
        if (strcmp(check->name, name) == 0)
            return true;
    *check = (tess_probe_check){.fix = ""};
    return false;
}

bool tess_probe_wants_group(const char *only, tess_probe_group group)
{
    tess_probe_check check;
    for (int i = 0; tess_probe_check_at(group, i, &check); i++)
        if (tess_probe_wanted(only, check.name))
            return true;
    return false;
}
