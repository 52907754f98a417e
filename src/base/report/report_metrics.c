/* Writes the numbers of a report as metrics for Prometheus (text format 0.0.4). The lines of a metric stand together,
 * as the format requires, and no two of them have the same labels. */
#include <string.h>

#include "base/report/report_impl.h"
#include "base/text/json.h"

enum { MOST_LABEL = 80 };

typedef struct page {
    json_t *metrics;    /* metric's name -> text of the labels -> value in the report */
    json_t *names;      /* names of the labels of the members that are collected now */
    tess_buffer labels; /* these labels as text */
    tess_buffer name;   /* name of the metric that is collected now */
    tess_buffer word;   /* scratch: name of a label, or an identity */
} page;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Appends a key in the characters that names may have. */
static tess_status put_name(tess_buffer *out, const char *key)
{
    for (; *key != '\0'; key++) {
        const bool fits = is_digit(*key) || (*key >= 'a' && *key <= 'z') || (*key >= 'A' && *key <= 'Z');
        TESS_TRY(tess_buffer_append(out, fits ? key : "_", 1));
    }
    return tess_buffer_append(out, "", 0);
}

static void cut(tess_buffer *text, size_t size)
{
    text->size = size;
    if (text->data != NULL)
        text->data[size] = '\0';
}

/* ---- Labels ---- */
static bool has_label(const page *p, const char *name)
{
    size_t i;
    const json_t *other;
    json_array_foreach (p->names, i, other)
        if (strcmp(json_string_value(other), name) == 0)
            return true;
    return false;
}

/* Makes p->word the name of a label: the key, or LIST_KEY if `list` is not NULL. The name is one that no other label
 * has. Names that begin with "__" are Prometheus' own. */
static tess_status name_label(page *p, const char *list, const char *key)
{
    tess_buffer *word = &p->word;
    cut(word, 0);
    TESS_TRY(put_name(word, list != NULL ? list : key));
    if (list != NULL) {
        TESS_TRY(tess_buffer_append(word, "_", 1));
        TESS_TRY(put_name(word, key));
    }
    if (word->data[0] == '\0' || is_digit(word->data[0]) || strncmp(word->data, "__", 2) == 0) {
        TESS_TRY(tess_buffer_append(word, "key_", 4));
        memmove(word->data + 4, word->data, word->size - 4);
        memcpy(word->data, "key_", 4);
    }
    while (has_label(p, word->data))
        TESS_TRY(tess_buffer_append(word, "_", 1));
    return TESS_OK;
}

static tess_status put_text(tess_buffer *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\n')
            TESS_TRY(tess_buffer_append(out, "\\n", 2));
        else
            TESS_TRY(tess_buffer_printf(out, "%s%c", *text == '\\' || *text == '"' ? "\\" : "", *text));
    }
    return TESS_OK;
}

/* Adds a label to those that samples get. The value is a text, or NULL for `number`. */
static tess_status add_label(page *p, const char *list, const char *key, const char *text, json_int_t number)
{
    tess_buffer *out = &p->labels;
    TESS_TRY(name_label(p, list, key));
    TESS_CHECK(json_array_append_new(p->names, json_string(p->word.data)) == 0, TESS_E_NOMEM, "no memory for labels");
    TESS_TRY(tess_buffer_printf(out, "%s%s=\"", out->size > 0 ? "," : "", p->word.data));
    TESS_TRY(text != NULL ? put_text(out, text) : tess_buffer_printf(out, "%lld", (long long)number));
    return tess_buffer_append(out, "\"", 1);
}

/* Removes the newest labels. Those that stay are `n`, a text of `size` bytes. */
static void remove_labels(page *p, size_t n, size_t size)
{
    cut(&p->labels, size);
    while (json_array_size(p->names) > n)
        json_array_remove(p->names, json_array_size(p->names) - 1);
}

/* ---- Samples ---- */
/* Adds a sample. A sample with the name and the labels of an earlier one is left out. */
static tess_status add_sample(page *p, const json_t *value)
{
    const char *labels = p->labels.size > 0 ? p->labels.data : "";
    json_t *samples = json_object_get(p->metrics, p->name.data);
    if (samples == NULL) {
        TESS_CHECK(json_object_set_new(p->metrics, p->name.data, json_object()) == 0, TESS_E_NOMEM,
                   "no memory for a metric");
        samples = json_object_get(p->metrics, p->name.data);
    }
    if (json_object_get(samples, labels) != NULL)
        return TESS_OK;
    TESS_CHECK(json_object_set_nocheck(samples, labels, (json_t *)value) == 0, TESS_E_NOMEM, "no memory for a sample");
    return TESS_OK;
}

static bool is_identity(const json_t *value)
{
    return json_is_string(value) || json_is_integer(value);
}

/* Returns the key of the member that tells an item of a list from the others; NULL: there is none. */
static const char *identity_of(json_t *item)
{
    static const char *const keys[] = {"name", "rank", "pid"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (is_identity(json_object_get(item, keys[i])))
            return keys[i];
    void *first = json_object_iter(item);
    return is_identity(json_object_iter_value(first)) ? json_object_iter_key(first) : NULL;
}

/* Finds whether two items of a list have the same identity. `seen` is an empty object. */
static tess_status find_twins(page *p, const json_t *list, json_t *seen, bool *found)
{
    size_t i;
    json_t *item;
    *found = false;
    json_array_foreach (list, i, item) {
        const char *key = identity_of(item);
        const json_t *value = json_object_get(item, key != NULL ? key : "");
        if (key == NULL)
            continue;
        cut(&p->word, 0);
        TESS_TRY(tess_buffer_printf(&p->word, "%s=", key));
        TESS_TRY(json_is_string(value) ? tess_buffer_printf(&p->word, "%s", json_string_value(value))
                                       : tess_buffer_printf(&p->word, "%lld", (long long)json_integer_value(value)));
        *found = *found || json_object_get(seen, p->word.data) != NULL;
        TESS_CHECK(json_object_set_new_nocheck(seen, p->word.data, json_true()) == 0, TESS_E_NOMEM,
                   "no memory for a list");
    }
    return TESS_OK;
}

static tess_status collect(page *p, const char *key, const json_t *value);

/* Adds the samples of the members of an object, except of `identity`, which is a label (NULL: none is). If two keys
 * become the same name, the second one is left out; `seen` is an empty object. */
static tess_status collect_members(page *p, const char *identity, json_t *object, json_t *seen)
{
    const size_t size = p->name.size;
    const char *key;
    json_t *value;
    json_object_foreach (object, key, value) {
        if (identity != NULL && strcmp(key, identity) == 0)
            continue;
        TESS_TRY(tess_buffer_append(&p->name, "_", 1));
        TESS_TRY(put_name(&p->name, key));
        if (json_object_get(seen, p->name.data + size) == NULL) {
            TESS_CHECK(json_object_set_new(seen, p->name.data + size, json_true()) == 0, TESS_E_NOMEM,
                       "no memory for the names of metrics");
            TESS_TRY(collect(p, key, value));
        }
        cut(&p->name, size);
    }
    return TESS_OK;
}

static tess_status collect_object(page *p, const char *identity, json_t *object)
{
    json_auto_t *seen = json_object();
    return collect_members(p, identity, object, seen);
}

/* Adds the samples of a list of objects. Labels of a list in a list begin with its key. If two items have the same
 * identity, all of them have their index as a further label. */
static tess_status collect_list(page *p, const char *key, const json_t *list)
{
    size_t i;
    json_t *item, *seen = json_object();
    bool has_twins;
    tess_status status = find_twins(p, list, seen, &has_twins);
    json_decref(seen);
    TESS_TRY(status);
    const size_t n = json_array_size(p->names), size = p->labels.size;
    const char *prefix = n > 0 ? key : NULL;
    json_array_foreach (list, i, item) {
        const char *identity = identity_of(item);
        const json_t *value = json_object_get(item, identity != NULL ? identity : "");
        if (identity == NULL)
            continue;
        TESS_TRY(add_label(p, prefix, identity, json_string_value(value), json_integer_value(value)));
        if (has_twins)
            TESS_TRY(add_label(p, prefix, "index", NULL, (json_int_t)i));
        TESS_TRY(collect_object(p, identity, item));
        remove_labels(p, n, size);
    }
    return TESS_OK;
}

/* Adds the samples of a member of the report. p->name is its metric's name. */
static tess_status collect(page *p, const char *key, const json_t *value)
{
    if (json_is_object(value))
        return collect_object(p, NULL, (json_t *)value);
    if (json_is_array(value))
        return collect_list(p, key, value);
    if (json_is_number(value) || json_is_boolean(value))
        return add_sample(p, value);
    if (!json_is_string(value) || json_string_length(value) > MOST_LABEL)
        return TESS_OK;
    const size_t n = json_array_size(p->names), size = p->labels.size;
    TESS_TRY(add_label(p, NULL, key, json_string_value(value), 0));
    TESS_TRY(add_sample(p, value));
    remove_labels(p, n, size);
    return TESS_OK;
}

/* ---- The page ---- */
/* Writes a line of a metric. The value of a text is 1, because the text is a label. */
static tess_status put_sample(tess_buffer *out, const char *name, const char *labels, const json_t *value)
{
    const bool has_labels = labels[0] != '\0';
    TESS_TRY(tess_buffer_printf(out, "%s%s%s%s ", name, has_labels ? "{" : "", labels, has_labels ? "}" : ""));
    if (json_is_integer(value))
        return tess_buffer_printf(out, "%lld\n", (long long)json_integer_value(value));
    return tess_buffer_printf(out, "%.15g\n", json_is_real(value) ? json_real_value(value) : !json_is_false(value));
}

static tess_status put_metrics(json_t *metrics, tess_buffer *out)
{
    const char *name, *labels;
    json_t *samples, *value;
    json_object_foreach (metrics, name, samples) {
        TESS_TRY(tess_buffer_printf(out, "# TYPE %s gauge\n", name));
        json_object_foreach (samples, labels, value)
            TESS_TRY(put_sample(out, name, labels, value));
    }
    return TESS_OK;
}

tess_status report_metrics(const json_t *report, tess_buffer *out)
{
    page p = {.metrics = json_object(), .names = json_array()};
    p.labels.mem = p.name.mem = p.word.mem = out->mem;
    tess_status status = TESS_OK;
    if (p.metrics == NULL || p.names == NULL)
        status = TESS_FAIL(TESS_E_NOMEM, "no memory for metrics");
    if (status == TESS_OK)
        status = put_name(&p.name, "tessera");
    if (status == TESS_OK)
        status = collect(&p, "", report);
    if (status == TESS_OK)
        status = put_metrics(p.metrics, out);
    json_decref(p.metrics);
    json_decref(p.names);
    tess_buffer_free(&p.labels);
    tess_buffer_free(&p.name);
    tess_buffer_free(&p.word);
    return status;
}
