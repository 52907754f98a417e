/* Adds findings of checks to a table, with their outcome and text. */
#include <stdarg.h>
#include <string.h>

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
