/* Prints the report on variables, as text and as JSON. */
#include <stdio.h>
#include <string.h>

#include "base/text/json.h"
#include "doctor/env/env_impl.h"
#include "doctor/env/env_values.h"
#include "doctor/table/clean.h"

enum { INDENT = 9 };

static const char *const grades[] = {[TESS_ENV_FINE] = "fine",
                                     [TESS_ENV_UNKNOWN] = "unknown",
                                     [TESS_ENV_RISKY] = "risky",
                                     [TESS_ENV_VOID] = "void",
                                     [TESS_ENV_WRONG] = "wrong"};

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
    snprintf(text, sizeof(text), "%s: %s%s%s%s%s", s->of, known->does, known->fallback != NULL ? "; default: " : "",
             known->fallback != NULL ? known->fallback : "", report_values ? "; accepts " : "",
             report_values ? tess_env_describe_values(known->values, accepted, sizeof(accepted)) : "");
    return print_indented(out, text);
}

static tess_status print_remark(const char *name, const char *text, tess_buffer *out)
{
    if (text == NULL)
        return TESS_OK;
    int indent = INDENT + (int)strlen(name) + 2;
    TESS_TRY(tess_buffer_printf(out, "%*s%s: ", INDENT, "", name));
    return tess_wrap(out, indent, indent, text);
}

static tess_status print_setting(const tess_env_setting *s, tess_buffer *out)
{
    char value[200];
    if (s->value == NULL)
        TESS_TRY(tess_buffer_printf(out, "%-8s %s\n", s->grade == TESS_ENV_FINE ? "unset" : grades[s->grade], s->name));
    else
        TESS_TRY(tess_buffer_printf(out, "%-8s %s=%s\n", grades[s->grade], s->name,
                                    tess_clean(s->value, strlen(s->value), value, sizeof(value))));
    if (s->finding[0] != '\0')
        TESS_TRY(print_indented(out, s->finding));
    if (s->known == NULL)
        return TESS_OK;
    TESS_TRY(print_known(s, out));
    TESS_TRY(print_remark("note", s->known->note, out));
    return print_remark("tessera", s->known->ours, out);
}

tess_status tess_env_print(const tess_env_report *report, const tess_env_registry *registry, tess_buffer *out)
{
    TESS_TRY(tess_buffer_printf(
        out,
        "%d of %d variables concern distributed training (%d are known): %d wrong, %d void, %d risky, %d conflict%s\n",
        report->n_settings, report->n_seen, registry->table.n, count(report, TESS_ENV_WRONG),
        count(report, TESS_ENV_VOID), count(report, TESS_ENV_RISKY), report->n_conflicts,
        report->n_conflicts == 1 ? "" : "s"));
    for (int i = 0; i < report->n_conflicts; i++) {
        TESS_TRY(tess_buffer_printf(out, "%sconflict ", i == 0 ? "\n" : ""));
        TESS_TRY(tess_wrap(out, INDENT, INDENT, report->conflicts[i]));
    }
    for (int grade = TESS_ENV_WRONG; grade >= TESS_ENV_FINE; grade--) /* order of the sections, most urgent first */
        for (int i = 0; i < report->n_settings; i++)
            if ((int)report->settings[i].grade == grade) {
                TESS_TRY(tess_buffer_printf(out, "\n"));
                TESS_TRY(print_setting(&report->settings[i], out));
            }
    return TESS_OK;
}

/* ---- JSON ---- */
static json_t *describe(const tess_env_setting *s)
{
    json_t *object = json_object();
    tess_clean_put(object, "name", s->name);
    tess_clean_put(object, "value", s->value);
    tess_clean_put(object, "grade", grades[s->grade]);
    tess_clean_put(object, "finding", s->finding);
    if (s->known != NULL) {
        tess_clean_put(object, "of", s->of);
        tess_clean_put(object, "does", s->known->does);
        tess_clean_put(object, "default", s->known->fallback);
        tess_clean_put(object, "note", s->known->note);
        tess_clean_put(object, "tessera", s->known->ours);
        tess_clean_put(object, "source", s->source);
    }
    return object;
}

tess_status tess_env_print_json(const tess_env_report *report, const tess_env_registry *registry, tess_buffer *out)
{
    json_t *settings = json_array(), *conflicts = json_array();
    for (int i = 0; i < report->n_settings; i++)
        json_array_append_new(settings, describe(&report->settings[i]));
    for (int i = 0; i < report->n_conflicts; i++)
        json_array_append_new(conflicts, json_string(report->conflicts[i]));
    json_t *document = json_pack("{s:i, s:i, s:i, s:o, s:o}", "version", 1, "known", registry->table.n, "findings",
                                 tess_env_n_findings(report), "conflicts", conflicts, "settings", settings);
    return tess_json_print(document, JSON_INDENT(2), out);
}
