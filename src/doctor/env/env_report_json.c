#include <stdlib.h>
#include <string.h>

#include "base/text/json.h"
#include "doctor/env/env_impl.h"
#include "doctor/table/clean.h"

static const char *const grades[] = {
    [TESS_ENV_FINE] = "fine", [TESS_ENV_UNKNOWN] = "unknown", [TESS_ENV_VOID] = "void", [TESS_ENV_WRONG] = "wrong"};

/* Leaves out NULL and "". */
static void put_text(json_t *object, const char *key, const char *text)
{
    char clean[TESS_TABLE_MOST_TEXT + 4];
    if (text != NULL && text[0] != '\0')
        json_object_set_new(object, key, json_string(tess_clean(text, strlen(text), clean, sizeof(clean))));
}

static json_t *describe(const tess_env_setting *s)
{
    json_t *object = json_object();
    put_text(object, "name", s->name);
    put_text(object, "value", s->value);
    put_text(object, "grade", grades[s->grade]);
    put_text(object, "finding", s->finding);
    if (s->known != NULL) {
        put_text(object, "of", s->known->of);
        put_text(object, "does", s->known->does);
        put_text(object, "default", s->known->fallback);
        put_text(object, "note", s->known->note);
        put_text(object, "source", s->known->source);
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
    char *text = json_dumps(document, JSON_INDENT(2));
    json_decref(document);
    TESS_CHECK(text != NULL, TESS_E_NOMEM, "no memory for the report as JSON");
    tess_status status = tess_buffer_printf(out, "%s\n", text);
    free(text);
    return status;
}
