#include "base/report/exposition.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text/json.h"

void tess_counters_free(tess_counters *counters)
{
    json_decref(counters->last);
    json_decref(counters->omitted);
    *counters = (tess_counters){0};
}

void tess_exposition_begin(tess_exposition *page, const tess_label *common, int n_common, tess_counters *counters,
                           tess_buffer *out)
{
    *page = (tess_exposition){
        .out = out, .sample = {.mem = out->mem}, .counters = counters, .common = common, .n_common = n_common};
}

void tess_exposition_family(tess_exposition *page, const char *name, tess_metric_type type, const char *help)
{
    page->name = name;
    page->type = type;
    page->help = help;
    page->from_first = false;
}

/* Appends a text as the format writes it between quotes, or without quotes in a HELP line. */
static tess_status put_text(tess_buffer *out, const char *text, bool is_quoted)
{
    size_t n = strlen(text);
    while (n > 0) {
        uint32_t code_point;
        int width = tess_utf8_decode((const uint8_t *)text, n, &code_point);
        const char *escaped = width == 0                  ? "?"
                              : *text == '\n'             ? "\\n"
                              : *text == '\\'             ? "\\\\"
                              : *text == '"' && is_quoted ? "\\\""
                                                          : NULL;
        width = width == 0 ? 1 : width;
        TESS_TRY(escaped != NULL ? tess_buffer_append(out, escaped, strlen(escaped))
                                 : tess_buffer_append(out, text, (size_t)width));
        text += width;
        n -= (size_t)width;
    }
    return TESS_OK;
}

static tess_status put_labels(tess_buffer *out, const char **separator, const tess_label *labels, int n)
{
    for (int i = 0; i < n; i++) {
        TESS_TRY(tess_buffer_printf(out, "%s%s=\"", *separator, labels[i].name));
        TESS_TRY(put_text(out, labels[i].value, true));
        TESS_TRY(tess_buffer_append(out, "\"", 1));
        *separator = ",";
    }
    return TESS_OK;
}

/* Makes page->sample the sample's name with its labels. */
static tess_status name_sample(tess_exposition *page, const tess_label *labels, int n)
{
    const char *separator = "{";
    page->sample.size = 0;
    TESS_TRY(tess_buffer_printf(&page->sample, "%s", page->name));
    TESS_TRY(put_labels(&page->sample, &separator, page->common, page->n_common));
    TESS_TRY(put_labels(&page->sample, &separator, labels, n));
    return tess_buffer_append(&page->sample, "}", *separator == ',');
}

/* Replaces the value of a source by that of its counter, which never falls. from_first: the counter begins at 0. */
static tess_status keep_counter(tess_counters *counters, const char *sample, bool from_first, double *value)
{
    if (counters->last == NULL)
        counters->last = json_object();
    if (counters->omitted == NULL)
        counters->omitted = json_object();
    const json_t *known = json_object_get(counters->last, sample);
    const double last = json_number_value(known);
    double omitted = json_number_value(json_object_get(counters->omitted, sample));
    if (known == NULL && from_first)
        omitted = -*value;
    else if (*value < last)
        omitted += last - *value;
    TESS_CHECK(json_object_set_new_nocheck(counters->omitted, sample, json_real(omitted)) == 0 &&
                   json_object_set_new_nocheck(counters->last, sample, json_real(*value)) == 0,
               TESS_E_NOMEM, "no memory for a counter");
    *value += omitted;
    return TESS_OK;
}

static tess_status put_head(tess_exposition *page)
{
    static const char *const types[] = {[TESS_METRIC_GAUGE] = "gauge", [TESS_METRIC_COUNTER] = "counter"};
    TESS_TRY(tess_buffer_printf(page->out, "# HELP %s ", page->name));
    TESS_TRY(put_text(page->out, page->help, false));
    page->help = NULL;
    return tess_buffer_printf(page->out, "\n# TYPE %s %s\n", page->name, types[page->type]);
}

/* Whole numbers, such as steps and bytes, have no exponent. */
static const char *format_value(double value, char *text, size_t size)
{
    static const double most_whole = 0x1p53;
    if (isnan(value))
        return "NaN";
    if (isinf(value))
        return value > 0 ? "+Inf" : "-Inf";
    if (value != floor(value) || fabs(value) > most_whole)
        return tess_format_double(value, text, size);
    snprintf(text, size, "%.0f", value);
    return text;
}

tess_status tess_exposition_add(tess_exposition *page, const tess_label *labels, int n, double value)
{
    char text[40];
    if (page->help != NULL)
        TESS_TRY(put_head(page));
    TESS_TRY(name_sample(page, labels, n));
    if (page->type == TESS_METRIC_COUNTER && page->counters != NULL && isfinite(value))
        TESS_TRY(keep_counter(page->counters, page->sample.data, page->from_first, &value));
    return tess_buffer_printf(page->out, "%s %s\n", page->sample.data, format_value(value, text, sizeof(text)));
}

void tess_exposition_end(tess_exposition *page)
{
    tess_buffer_free(&page->sample);
}
