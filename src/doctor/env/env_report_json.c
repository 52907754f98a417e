#include <string.h>

#include "base/text/json.h"
#include "doctor/env/env_impl.h"
#include "doctor/table/clean.h"

static const char *const grades[] = {
    [TESS_ENV_FINE] = "fine", [TESS_ENV_UNKNOWN] = "unknown", [TESS_ENV_VOID] = "void", [TESS_ENV_WRONG] = "wrong"};

static json_t *describe(const tess_env_setting *s)
{
    json_t *object = json_object();
    tess_clean_put(object, "name", s->name);
    tess_clean_put(object, "value", s->value);
    tess_clean_put(object, "grade", grades[s->grade]);
    tess_clean_put(object, "finding", s->finding);
    if (s->known != NULL) {
        tess_clean_put(object, "of", s->known->of);
        tess_clean_put(object, "does", s->known->does);
        tess_clean_put(object, "default", s->known->fallback);
        tess_clean_put(object, "note", s->known->note);
        tess_clean_put(object, "source", s->known->source);
    }
    return object;
}

tess_status tess_env_print_json(const tess_env_report *report, const tess_env_registry *registry, tess_buffer *out)
{
    json_t *document = json_object(), *settings = json_array(), *conflicts = json_array();
    for (int i = 0; i < report->n_settings; i++)
        json_array_append_new(settings, describe(&report->settings[i]));
    for (int i = 0; i < report->n_conflicts; i++)
        json_array_append_new(conflicts, json_string(report->conflicts[i]));
    json_object_set_new(document, "version", json_integer(1));
    json_object_set_new(document, "known", json_integer(registry->table.n));
    json_object_set_new(document, "findings", json_integer(tess_env_n_findings(report)));
    json_object_set_new(document, "conflicts", conflicts);
    json_object_set_new(document, "settings", settings);
    return tess_json_print(document, JSON_INDENT(2), out);
}
