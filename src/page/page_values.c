/* Values of files as texts for people. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "page/page_impl.h"

static size_t add_item(char *text, size_t size, size_t at, const json_t *value)
{
    char number[64];
    switch (json_typeof(value)) {
    case JSON_STRING:
        return tess_text_add(text, size, at, "%s", json_string_value(value));
    case JSON_INTEGER:
        return tess_text_add(text, size, at, "%lld", (long long)json_integer_value(value));
    case JSON_REAL:
        snprintf(number, sizeof(number), "%.12g", json_real_value(value));
        return tess_text_add(text, size, at, "%s", number);
    case JSON_TRUE:
        return tess_text_add(text, size, at, "true");
    case JSON_FALSE:
        return tess_text_add(text, size, at, "false");
    case JSON_NULL:
        return tess_text_add(text, size, at, "-");
    default:
        return tess_text_add(text, size, at, "...");
    }
}

const char *page_value_text(const json_t *value, char *text, size_t size)
{
    size_t i, at = 0;
    const char *key, *separator = "";
    json_t *item;
    text[0] = '\0';
    if (json_is_string(value))
        return json_string_value(value);
    json_array_foreach (value, i, item) {
        at = tess_text_add(text, size, at, "%s", separator);
        at = add_item(text, size, at, item);
        separator = ", ";
    }
    json_object_foreach ((json_t *)value, key, item) {
        at = tess_text_add(text, size, at, "%s%s ", separator, key);
        at = add_item(text, size, at, item);
        separator = ", ";
    }
    if (value != NULL && !json_is_array(value) && !json_is_object(value))
        add_item(text, size, 0, value);
    return text;
}

const char *page_string(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

double page_member(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

const char *page_time(int64_t wall_ns, char *text, size_t size)
{
    const time_t seconds = (time_t)(wall_ns / 1000000000);
    struct tm parts;
    text[0] = '\0';
    if (wall_ns > 0 && gmtime_r(&seconds, &parts) != NULL)
        strftime(text, size, "%Y-%m-%d %H:%M:%S UTC", &parts);
    return text;
}

const char *page_duration(double seconds, char *text, size_t size)
{
    if (!(seconds >= 0) || seconds > 1e12)
        snprintf(text, size, "-");
    else if (seconds < 60)
        snprintf(text, size, "%.3g s", seconds);
    else if (seconds < 3600)
        snprintf(text, size, "%d min %d s", (int)(seconds / 60), (int)fmod(seconds, 60));
    else
        snprintf(text, size, "%lld h %d min", (long long)(seconds / 3600), (int)(fmod(seconds, 3600) / 60));
    return text;
}

void page_put_run_name(const tess_run_page *page, const page_run *run, page_out *out)
{
    if (page->n == 1)
        return;
    page_put(out, "<h3 class=\"run\">");
    page_put_some(out, run->name, 120);
    page_put(out, "</h3>\n");
}
