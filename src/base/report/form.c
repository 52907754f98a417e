/* Fills the cells of a form and prints it as text. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/report/form.h"
#include "base/text/json.h"

typedef struct filling {
    tess_buffer *out;
    int columns; /* the column at which texts are wrapped */
} filling;

/* Appends a text of n bytes with spaces up to |width| characters; negative: the text comes first. */
static tess_status pad(tess_buffer *out, const char *text, size_t n, int width)
{
    int missing = abs(width) - tess_utf8_count(text, n);
    if (missing > 0 && width > 0)
        TESS_TRY(tess_buffer_printf(out, "%*s", missing, ""));
    TESS_TRY(tess_buffer_append(out, text, n));
    return missing > 0 && width < 0 ? tess_buffer_printf(out, "%*s", missing, "") : TESS_OK;
}

static bool is_empty(const json_t *value)
{
    return value == NULL || json_is_null(value) || json_is_false(value) ||
           (json_is_number(value) && json_number_value(value) == 0) ||
           (json_is_string(value) && json_string_length(value) == 0);
}

/* Returns the member with a name such as "a.b" or "a.0" of n bytes; NULL: there is none. */
static const json_t *find_member(const json_t *object, const char *name, size_t n)
{
    while (n > 0 && object != NULL) {
        const char *dot = memchr(name, '.', n);
        size_t size = dot != NULL ? (size_t)(dot - name) : n;
        object =
            json_is_array(object) ? json_array_get(object, (size_t)atoi(name)) : json_object_getn(object, name, size);
        size += dot != NULL;
        name += size;
        n -= size;
    }
    return object;
}

static void format_number(const json_t *value, char kind, int digits, char *text, size_t size)
{
    double number = json_number_value(value);
    if (kind == 'f')
        snprintf(text, size, "%.*f", digits < 0 ? 6 : digits, number);
    else if (kind == '+')
        snprintf(text, size, "%+.*f", digits < 0 ? 6 : digits, number);
    else if (kind == 'e')
        snprintf(text, size, "%.*e", digits < 0 ? 6 : digits, number);
    else if (kind == '%')
        snprintf(text, size, "%.*f%%", digits < 0 ? 0 : digits, 100 * number);
    else if (kind == 'B')
        tess_format_bytes(number, text, size);
    else if (kind != 'g' && json_is_integer(value))
        snprintf(text, size, "%lld", (long long)json_integer_value(value));
    else
        snprintf(text, size, "%.*g", digits < 0 ? 6 : digits, number);
}

/* Appends the words of a text, wrapped at the form's columns; only a longer word exceeds them. Further lines begin at
 * `indent`. */
static tess_status wrap(const filling *f, const char *text, int indent)
{
    tess_buffer *out = f->out;
    const char *line = out->size > 0 ? memrchr(out->data, '\n', out->size) : NULL;
    size_t begin = line != NULL ? (size_t)(line + 1 - out->data) : 0;
    int column = tess_utf8_count(out->data + begin, out->size - begin);
    bool is_first = true; /* the next word is the first of its line */
    text += strspn(text, " \n");
    while (*text != '\0') {
        size_t n = strcspn(text, " \n");
        int width = tess_utf8_count(text, n);
        if (!is_first && column + 1 + width > f->columns) {
            TESS_TRY(tess_buffer_printf(out, "\n%*s", indent, ""));
            column = indent;
            is_first = true;
        }
        TESS_TRY(tess_buffer_printf(out, "%s%.*s", is_first ? "" : " ", (int)n, text));
        column += width + !is_first;
        is_first = false;
        text += n + strspn(text + n, " \n");
    }
    return TESS_OK;
}

/* Appends a value as `format`, which ends at a '}', says. */
static tess_status put_value(const filling *f, const json_t *value, const char *format)
{
    tess_buffer *out = f->out;
    char number[400], *end; /* a double has at most 309 digits before the point */
    const char *text = number;
    int width = (int)strtol(format, &end, 10), digits = *end == '.' ? (int)strtol(end + 1, &end, 10) : -1;
    size_t n = strcspn(end, "}");
    snprintf(number, sizeof(number), "-");
    if (*end == '!')
        return TESS_OK;
    if (*end == '?') {
        size_t n_yes = strcspn(end, "|}"), skip = n_yes < n ? n_yes + 1 : n;
        return is_empty(value) ? tess_buffer_append(out, end + skip, n - skip)
                               : tess_buffer_append(out, end + 1, n_yes - 1);
    }
    if (*end == 's')
        text = json_number_value(value) == 1 ? "" : "s";
    else if (json_is_string(value))
        text = json_string_value(value);
    else if (json_is_boolean(value))
        text = json_is_true(value) ? "yes" : "no";
    else if (json_is_number(value))
        format_number(value, *end, digits, number, sizeof(number));
    return *end == 'w' ? wrap(f, text, width) : pad(out, text, strlen(text), width);
}

static tess_status fill(const filling *f, const char **at, const json_t *object, const char *ends, bool *empty);

/* Fills the text after a bracket: [A] or [A|B], where B is used if A's first cell is empty. */
static tess_status fill_bracket(const filling *f, const char **at, const json_t *object)
{
    tess_buffer *out = f->out;
    bool left_out, ignored;
    size_t before = out->size;
    TESS_TRY(fill(f, at, object, "]|", &left_out));
    out->size = left_out ? before : out->size;
    if (**at == '|') {
        (*at)++;
        before = out->size;
        TESS_TRY(fill(f, at, object, "]", &ignored));
        out->size = left_out ? out->size : before;
    }
    out->data[out->size] = '\0';
    TESS_CHECK(**at == ']', TESS_E_INTERNAL, "no ] ends a part of a text");
    (*at)++;
    return TESS_OK;
}

/* Fills a text up to one of the characters `ends` or its end. *at: where it ends. *empty: its first cell is empty. */
static tess_status fill(const filling *f, const char **at, const json_t *object, const char *ends, bool *empty)
{
    bool is_first = true;
    *empty = false;
    while (**at != '\0' && strchr(ends, **at) == NULL) {
        size_t n = strcspn(*at, ends[1] == '|' ? "{[]|" : "{[]");
        TESS_TRY(tess_buffer_append(f->out, *at, n));
        *at += n;
        if (**at == '[') {
            (*at)++;
            TESS_TRY(fill_bracket(f, at, object));
        } else if (**at == '{') {
            size_t key = strcspn(*at + 1, ":}"), end = strcspn(*at, "}");
            const json_t *value = find_member(object, *at + 1, key);
            TESS_CHECK((*at)[end] == '}', TESS_E_INTERNAL, "no } ends the cell '%.40s'", *at);
            TESS_TRY(put_value(f, value, *at + 1 + key + ((*at)[1 + key] == ':')));
            *empty = is_first ? is_empty(value) : *empty;
            is_first = false;
            *at += end + 1;
        }
    }
    return TESS_OK;
}

static tess_status fill_all(const filling *f, const char *text, const json_t *object)
{
    bool empty;
    TESS_TRY(fill(f, &text, object, "]", &empty));
    TESS_CHECK(*text == '\0', TESS_E_INTERNAL, "a ] closes nothing at '%.40s'", text);
    return TESS_OK;
}

tess_status tess_form_print(tess_buffer *out, const tess_form_part *form, int columns, const json_t *report)
{
    const filling f = {out, columns};
    for (const tess_form_part *part = form; part->text != NULL; part++) {
        size_t i;
        const json_t *item, *list = part->list != NULL ? find_member(report, part->list, strlen(part->list)) : NULL;
        if (part->list == NULL)
            TESS_TRY(fill_all(&f, part->text, report));
        else
            json_array_foreach (list, i, item)
                TESS_TRY(fill_all(&f, part->text, item));
    }
    return TESS_OK;
}

json_t *tess_form_number(double value, bool as_json)
{
    return isfinite(value) || as_json ? tess_json_number(value) : json_sprintf("%g", value);
}

tess_status tess_form_put(json_t *report, const tess_form_part *form, bool as_json, size_t flags, tess_buffer *out)
{
    if (as_json)
        return tess_json_print(report, flags, out);
    TESS_CHECK(report != NULL, TESS_E_NOMEM, "no memory for a report");
    tess_status status = tess_form_print(out, form, TESS_FORM_WIDTH, report);
    json_decref(report);
    return status;
}
