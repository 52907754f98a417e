/* Prints the report on variables, as text and as JSON. */
#include <string.h>

#include "base/report/form.h"
#include "base/text/json.h"
#include "doctor/env/env_impl.h"
#include "doctor/env/env_values.h"
#include "doctor/table/clean.h"

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

static const tess_form_part form[] = {
    {.text =
         "{n_settings} of {n_seen} variables concern distributed training ({known} are known): {wrong} wrong, {void} "
         "void, {risky} risky, {n_conflicts} conflict{n_conflicts:s}\n[{n_conflicts:!}\n]"},
    {.list = "conflicts", .text = "conflict {:9w}\n"},
    {.list = "shown",
     .text = "\n{word:-8} {setting}\n[         {finding:9w}\n][         {about:9w}\n][         note: {note:15w}\n]"
             "[         tessera: {tessera:18w}\n]"},
    {NULL, NULL}};

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

/* Returns a setting with what only people are told. */
static json_t *describe_shown(const tess_env_setting *s)
{
    char value[200], accepted[400];
    const tess_env_variable *known = s->known;
    json_t *object = describe(s);
    json_object_set_new(object, "word",
                        json_string(s->value == NULL && s->grade == TESS_ENV_FINE ? "unset" : grades[s->grade]));
    json_object_set_new(
        object, "setting",
        json_sprintf("%s%s%s", json_string_value(json_object_get(object, "name")), s->value != NULL ? "=" : "",
                     s->value != NULL ? tess_clean(s->value, strlen(s->value), value, sizeof(value)) : ""));
    if (known == NULL)
        return object;
    bool report_values = known->values != NULL && s->grade != TESS_ENV_WRONG;
    json_object_set_new(
        object, "about",
        json_sprintf("%s: %s%s%s%s%s", s->of, known->does, known->fallback != NULL ? "; default: " : "",
                     known->fallback != NULL ? known->fallback : "", report_values ? "; accepts " : "",
                     report_values ? tess_env_describe_values(known->values, accepted, sizeof(accepted)) : ""));
    return object;
}

/* Adds what only people are told: counts, and the settings, most urgent first. */
static void add_shown(const tess_env_report *report, json_t *document)
{
    json_t *shown = json_array();
    for (int grade = TESS_ENV_WRONG; grade >= TESS_ENV_FINE; grade--)
        for (int i = 0; i < report->n_settings; i++)
            if ((int)report->settings[i].grade == grade)
                json_array_append_new(shown, describe_shown(&report->settings[i]));
    json_object_update_new(document, json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:o}", "n_settings", report->n_settings,
                                               "n_seen", report->n_seen, "wrong", count(report, TESS_ENV_WRONG), "void",
                                               count(report, TESS_ENV_VOID), "risky", count(report, TESS_ENV_RISKY),
                                               "n_conflicts", report->n_conflicts, "shown", shown));
}

tess_status tess_env_print(const tess_env_report *report, const tess_env_registry *registry, tess_form_style style,
                           tess_buffer *out)
{
    json_t *settings = json_array(), *conflicts = json_array();
    for (int i = 0; i < report->n_settings; i++)
        json_array_append_new(settings, describe(&report->settings[i]));
    for (int i = 0; i < report->n_conflicts; i++)
        json_array_append_new(conflicts, json_string(report->conflicts[i]));
    json_t *document = json_pack("{s:i, s:i, s:i, s:o, s:o}", "version", 1, "known", registry->table.n, "findings",
                                 tess_env_n_findings(report), "conflicts", conflicts, "settings", settings);
    if (style == TESS_FORM_TEXT)
        add_shown(report, document);
    return tess_form_put(document, form, style, JSON_INDENT(2), out);
}
