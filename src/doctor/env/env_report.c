#include <stdio.h>
#include <string.h>

#include "doctor/env/env_impl.h"
#include "doctor/env/env_values.h"
#include "doctor/table/clean.h"
#include "doctor/table/wrap.h"

enum { INDENT = 9 };

static const char *grade_name(const tess_env_setting *setting)
{
    static const char *const names[] = {
        [TESS_ENV_FINE] = "fine", [TESS_ENV_UNKNOWN] = "unknown", [TESS_ENV_VOID] = "void", [TESS_ENV_WRONG] = "wrong"};
    return names[setting->grade];
}

static int count(const tess_env_report *report, tess_env_grade grade)
{
    int n = 0;
    for (int i = 0; i < report->n_settings; i++)
        n += report->settings[i].grade == grade;
    return n;
}

static tess_status print_indented(tess_buffer *out, const char *text)
{
    TESS_TRY(tess_buffer_printf(out, "%*s", INDENT, ""));
    return tess_wrap(out, INDENT, INDENT, text);
}

/* "NCCL: how much it prints; default: WARN; accepts one of ..." */
static tess_status print_known(const tess_env_setting *s, tess_buffer *out)
{
    char accepted[400], text[1200];
    const tess_env_variable *known = s->known;
    bool report_values = known->values != NULL && s->grade != TESS_ENV_WRONG;
    snprintf(text, sizeof(text), "%s: %s%s%s%s%s", known->of, known->does, known->fallback != NULL ? "; default: " : "",
             known->fallback != NULL ? known->fallback : "", report_values ? "; accepts " : "",
             report_values ? tess_env_describe_values(known->values, accepted, sizeof(accepted)) : "");
    return print_indented(out, text);
}

static tess_status print_setting(const tess_env_setting *s, tess_buffer *out)
{
    char value[200];
    TESS_TRY(tess_buffer_printf(out, "%-8s %s=%s\n", grade_name(s), s->name,
                                tess_clean(s->value, strlen(s->value), value, sizeof(value))));
    if (s->finding[0] != '\0')
        TESS_TRY(print_indented(out, s->finding));
    if (s->known == NULL)
        return TESS_OK;
    TESS_TRY(print_known(s, out));
    if (s->known->note == NULL)
        return TESS_OK;
    TESS_TRY(tess_buffer_printf(out, "%*snote: ", INDENT, ""));
    return tess_wrap(out, INDENT + 6, INDENT + 6, s->known->note);
}

tess_status tess_env_print(const tess_env_report *report, const tess_env_registry *registry, tess_buffer *out)
{
    TESS_TRY(tess_buffer_printf(
        out, "%d of %d variables concern distributed training (%d are known): %d wrong, %d void, %d conflict%s\n",
        report->n_settings, report->n_seen, registry->table.n, count(report, TESS_ENV_WRONG),
        count(report, TESS_ENV_VOID), report->n_conflicts, report->n_conflicts == 1 ? "" : "s"));
    for (int i = 0; i < report->n_conflicts; i++) {
        TESS_TRY(tess_buffer_printf(out, "%sconflict ", i == 0 ? "\n" : ""));
        TESS_TRY(tess_wrap(out, INDENT, INDENT, report->conflicts[i]));
    }
    for (int grade = TESS_ENV_WRONG; grade >= TESS_ENV_FINE; grade--) /* most urgent first */
        for (int i = 0; i < report->n_settings; i++)
            if ((int)report->settings[i].grade == grade) {
                TESS_TRY(tess_buffer_printf(out, "\n"));
                TESS_TRY(print_setting(&report->settings[i], out));
            }
    return TESS_OK;
}
