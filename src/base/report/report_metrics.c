/* Writes the numbers of a report as metrics for Prometheus (text format 0.0.4). The lines of a metric stand together,
 * as the format requires. */
#include <ctype.h>
#include <string.h>

#include "base/report/report_impl.h"
#include "base/text/json.h"

enum { NAME_BYTES = 256, LABELS_BYTES = 1024, MOST_LABEL = 80 };

/* Writes a name in the characters that names may have. */
static void write_name(const char *before, const char *key, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "%s_%s", before, key);
    for (char *at = name; *at != '\0'; at++)
        *at = isalnum((unsigned char)*at) ? *at : '_';
}

/* Writes the labels with one more. */
static void write_labels(const char *before, const char *key, const json_t *value, char labels[LABELS_BYTES])
{
    char name[NAME_BYTES];
    write_name("", key, name);
    size_t at = tess_text_add(labels, LABELS_BYTES, 0, "%s%s%s=\"", before, before[0] != '\0' ? "," : "", name + 1);
    const char *text = json_is_string(value) ? json_string_value(value) : "";
    if (json_is_integer(value))
        at = tess_text_add(labels, LABELS_BYTES, at, "%lld", (long long)json_integer_value(value));
    for (; *text != '\0' && at < LABELS_BYTES - 8; text++) /* the quotes always fit */
        at = tess_text_add(labels, LABELS_BYTES, at, "%s%c", strchr("\n\\\"", *text) != NULL ? "\\" : "",
                           *text == '\n' ? 'n' : *text);
    tess_text_add(labels, LABELS_BYTES, at, "\"");
}

static void add_sample(json_t *metrics, const char *name, const char *labels, double value)
{
    json_t *samples = json_object_get(metrics, name);
    const bool has_labels = labels[0] != '\0';
    if (samples == NULL) {
        samples = json_array();
        json_object_set_new(metrics, name, samples);
    }
    json_array_append_new(samples,
                          json_sprintf("%s%s%s %.15g", has_labels ? "{" : "", labels, has_labels ? "}" : "", value));
}

/* Returns the key of the member that tells an item of a list from the others. */
static const char *identity_of(json_t *item)
{
    static const char *const keys[] = {"name", "rank", "pid"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (json_object_get(item, keys[i]) != NULL)
            return keys[i];
    return json_object_iter_key(json_object_iter(item));
}

static void collect(json_t *metrics, const char *name, const char *labels, const char *key, const json_t *value);

/* Adds the samples of the members of an object, except of `identity`, which is a label (NULL: none is). */
static void collect_members(json_t *metrics, const char *name, const char *labels, const char *identity, json_t *object)
{
    char inner[NAME_BYTES];
    const char *key;
    json_t *value;
    json_object_foreach (object, key, value) {
        write_name(name, key, inner);
        if (identity == NULL || strcmp(key, identity) != 0)
            collect(metrics, inner, labels, key, value);
    }
}

/* Adds the samples of a list of objects. Labels of a list in a list begin with its key, and are other ones than those
 * of the outer list. */
static void collect_list(json_t *metrics, const char *name, const char *labels, const char *key, const json_t *list)
{
    size_t i;
    json_t *item;
    char inner[LABELS_BYTES], label[NAME_BYTES];
    json_array_foreach (list, i, item) {
        const char *identity = identity_of(item);
        const json_t *value = json_object_get(item, identity != NULL ? identity : "");
        if (!json_is_string(value) && !json_is_integer(value))
            continue;
        write_name(key, identity, label);
        write_labels(labels, labels[0] != '\0' ? label : identity, value, inner);
        collect_members(metrics, name, inner, identity, item);
    }
}

static void collect(json_t *metrics, const char *name, const char *labels, const char *key, const json_t *value)
{
    char with_text[LABELS_BYTES];
    if (json_is_object(value))
        collect_members(metrics, name, labels, NULL, (json_t *)value);
    else if (json_is_array(value))
        collect_list(metrics, name, labels, key, value);
    else if (json_is_number(value) || json_is_boolean(value))
        add_sample(metrics, name, labels, json_is_boolean(value) ? json_is_true(value) : json_number_value(value));
    else if (json_is_string(value) && json_string_length(value) <= MOST_LABEL) {
        write_labels(labels, key, value, with_text);
        add_sample(metrics, name, with_text, 1);
    }
}

tess_status report_metrics(const json_t *report, tess_buffer *out)
{
    size_t i;
    const char *name;
    json_t *metrics = json_object(), *samples, *sample;
    tess_status status = metrics != NULL ? TESS_OK : TESS_FAIL(TESS_E_NOMEM, "no memory for metrics");
    collect(metrics, "tessera", "", "", report);
    json_object_foreach (metrics, name, samples) {
        if (status == TESS_OK)
            status = tess_buffer_printf(out, "# TYPE %s gauge\n", name);
        json_array_foreach (samples, i, sample)
            if (status == TESS_OK)
                status = tess_buffer_printf(out, "%s%s\n", name, json_string_value(sample));
    }
    json_decref(metrics);
    return status;
}
