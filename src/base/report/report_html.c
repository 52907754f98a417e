/* Writes a report as a page of HTML. An object is a table of its members, and a list of objects is a table with a
 * column for each key. HTML needs no end tags of rows and cells. */
#include "base/report/report_impl.h"

static const char head[] = "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>tessera</title>\n"
                           "<style>table{border-collapse:collapse}td,th{border:1px solid #bbb;padding:2px 6px;"
                           "text-align:left;vertical-align:top}</style>\n";

static tess_status put_text(tess_buffer *out, const char *before, const char *text)
{
    TESS_TRY(tess_buffer_printf(out, "%s", before));
    for (; *text != '\0'; text++) {
        const char *entity = *text == '<' ? "&lt;" : *text == '>' ? "&gt;" : *text == '&' ? "&amp;" : NULL;
        TESS_TRY(entity != NULL ? tess_buffer_printf(out, "%s", entity) : tess_buffer_append(out, text, 1));
    }
    return TESS_OK;
}

static tess_status put_value(tess_buffer *out, const char *before, const json_t *value);

/* Puts the values that an item has for the keys. */
static tess_status put_row(tess_buffer *out, json_t *keys, const json_t *item)
{
    const char *key;
    json_t *ignored;
    TESS_TRY(tess_buffer_printf(out, "\n<tr>"));
    json_object_foreach (keys, key, ignored)
        TESS_TRY(put_value(out, "<td>", json_object_get(item, key)));
    return TESS_OK;
}

static tess_status put_members(tess_buffer *out, json_t *object)
{
    const char *key;
    json_t *value;
    json_object_foreach (object, key, value) {
        TESS_TRY(put_text(out, "\n<tr><th>", key));
        TESS_TRY(put_value(out, "<td>", value));
    }
    return TESS_OK;
}

/* Puts the items of a list. `keys` has the keys of all of them; empty: they are no objects. */
static tess_status put_items(tess_buffer *out, const json_t *list, json_t *keys)
{
    size_t i;
    const char *key, *separator = "";
    json_t *item;
    json_object_foreach (keys, key, item)
        TESS_TRY(put_text(out, "<th>", key));
    json_array_foreach (list, i, item) {
        TESS_TRY(json_object_size(keys) > 0 ? put_row(out, keys, item) : put_value(out, separator, item));
        separator = json_is_array(item) ? "<br>\n" : ", ";
    }
    return TESS_OK;
}

static tess_status put_value(tess_buffer *out, const char *before, const json_t *value)
{
    size_t i;
    json_t *item;
    json_auto_t *keys = json_object();
    json_array_foreach (value, i, item)
        json_object_update_missing(keys, item);
    const bool is_table = json_is_object(value) || json_object_size(keys) > 0;
    TESS_TRY(tess_buffer_printf(out, "%s%s", before, is_table ? "<table>" : ""));
    TESS_TRY(json_is_object(value)  ? put_members(out, (json_t *)value)
             : json_is_array(value) ? put_items(out, value, keys)
             : json_is_string(value)
                 ? put_text(out, "", json_string_value(value))
                 : tess_form_print(out, (tess_form_part[]){{.text = "{}"}, {NULL, NULL}}, 0, value));
    if (is_table)
        TESS_TRY(tess_buffer_printf(out, "\n</table>\n"));
    return TESS_OK;
}

tess_status report_html(const json_t *report, tess_buffer *out)
{
    return put_value(out, head, report);
}
