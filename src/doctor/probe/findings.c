/* Records findings. */
#include <stdarg.h>
#include <string.h>

#include "base/text/text.h"
#include "doctor/probe/probe_impl.h"

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

/* Names of processes and folders may hold anything: what is not text, or controls a terminal, becomes '?'. */
static void clean(char *text)
{
    uint32_t code_point;
    for (char *at = text; *at != '\0';) {
        int n = tess_utf8_decode((const uint8_t *)at, strlen(at), &code_point);
        if (n == 0 || code_point < ' ' || (code_point >= 0x7f && code_point < 0xa0)) {
            memset(at, '?', n > 0 ? (size_t)n : 1);
            n = n > 0 ? n : 1;
        }
        at += n;
    }
}

void probe_say(tess_probe_finding *finding, tess_probe_outcome outcome, const char *format, ...)
{
    va_list args;
    finding->outcome = outcome;
    va_start(args, format);
    vsnprintf(finding->text, sizeof(finding->text), format, args);
    va_end(args);
    clean(finding->text);
}

void tess_probe_add(tess_probe_findings *findings, tess_probe_group group, const char *name, tess_probe_outcome outcome,
                    const char *format, ...)
{
    va_list args;
    if (findings->n == TESS_PROBE_MOST)
        return;
    tess_probe_finding *finding = &findings->at[findings->n++];
    *finding = (tess_probe_finding){.outcome = outcome, .group = group};
    snprintf(finding->name, sizeof(finding->name), "%s", name);
    va_start(args, format);
    vsnprintf(finding->text, sizeof(finding->text), format, args);
    va_end(args);
    clean(finding->text);
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
