/* Fills the cells of a form and prints it as text. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/report/form.h"
#include "base/text/json.h"

typedef struct filling {
    tess_buffer *out;
    int columns;        /* the column at which texts are wrapped */
    const char *absent; /* the text of a member that is absent or null */
} filling;

static bool is_separator(char c)
{
    return c == '\t' || c == '\v';
}

/* Appends a value of n bytes with spaces up to |width| characters; negative: the value comes first. A separator of
 * columns in the value becomes a space. */
static tess_status pad(tess_buffer *out, const char *text, size_t n, int width)
{
    int missing = abs(width) - tess_utf8_count(text, n);
    if (missing > 0 && width > 0)
        TESS_TRY(tess_buffer_printf(out, "%*s", missing, ""));
    const size_t begin = out->size;
    TESS_TRY(tess_buffer_append(out, text, n));
    for (char *at = out->data + begin; *at != '\0'; at++)
        *at = is_separator(*at) ? ' ' : *at;
    return missing > 0 && width < 0 ? tess_buffer_printf(out, "%*s", missing, "") : TESS_OK;
}

static bool is_empty(const json_t *value)
{
    return value == NULL || json_is_null(value) || json_is_false(value) ||
           (json_is_array(value) && json_array_size(value) == 0) ||
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

/* Formats a measured value with four significant digits; integers have no decimals. */
static void format_measure(double value, char *text, size_t size)
{
    const double amount = fabs(value);
    int decimals = amount >= 1 && value == floor(value) ? 0 : 3;
    if (value != 0 && amount < 0.001) {
        snprintf(text, size, "%.2e", value);
        return;
    }
    for (; decimals > 0 && snprintf(text, size, "%.*f", decimals, amount) > 5; decimals--)
        ; /* four digits and the point; rounding may add a digit */
    snprintf(text, size, "%.*f", decimals, value);
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
    else if (kind == 'm')
        format_measure(number, text, size);
    else if (kind == 'c')
        tess_format_count(number, text, size);
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
    snprintf(number, sizeof(number), "%s", f->absent);
    if (*end == '!')
        return TESS_OK;
    if (*end == '?' || memchr(end, '|', n) != NULL) {
        size_t begin = *end == '?', n_first = strcspn(end, "|}"), second = n_first < n ? n_first + 1 : n;
        bool is_first = begin == 1 ? !is_empty(value) : json_number_value(value) == 1;
        return is_first ? tess_buffer_append(out, end + begin, n_first - begin)
                        : tess_buffer_append(out, end + second, n - second);
    }
    if (*end == 's')
        text = json_number_value(value) == 1 ? "" : "s";
    else if (json_is_string(value))
        text = json_string_value(value);
    else if (json_is_boolean(value))
        text = json_is_true(value) ? "yes" : "no";
    else if (json_is_number(value))
        format_number(value, *end, digits, number, sizeof(number));
    const size_t size =
        json_is_string(value) && *end == '}' && digits > 0 ? strnlen(text, (size_t)digits) : strlen(text);
    return *end == 'w' ? wrap(f, text, width) : pad(out, text, size, width);
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

/* Appends the "..." that stands for the items of a list that are left out. `body` is the text of an item. */
static tess_status put_gap(const filling *f, const char *body, size_t n_body)
{
    const int n_before = (int)strspn(body, "\t\v ");
    const bool is_line = n_body > 0 && body[n_body - 1] == '\n';
    return tess_buffer_printf(f->out, "%.*s...%s", is_line ? 0 : n_before, body, is_line ? "\n" : "");
}

/* Fills a loop, {*KEY:MOST SEPARATOR}BODY{/}, for each item of a list. */
static tess_status fill_loop(const filling *f, const char **at, const json_t *object)
{
    tess_buffer *out = f->out;
    const char *name = *at + 2, *body = strchr(name, '}');
    TESS_CHECK(body != NULL, TESS_E_INTERNAL, "no } ends the loop '%.40s'", *at);
    size_t key = strcspn(name, ":}"), before = out->size, i = 0;
    char *separator = (char *)name + key;
    size_t most = *separator == ':' ? (size_t)strtol(separator + 1, &separator, 10) : 0;
    const json_t *list = find_member(object, name, key);
    const size_t n = json_array_size(list), n_separator = (size_t)(body++ - separator);
    bool ignored;
    do {
        if (i > 0)
            TESS_TRY(tess_buffer_append(out, separator, n_separator));
        if (most > 1 && n > most && i == most - 1) {
            TESS_TRY(put_gap(f, body, (size_t)(*at - body)));
            TESS_TRY(tess_buffer_append(out, separator, n_separator));
            i = n - 1;
        }
        *at = body;
        TESS_TRY(fill(f, at, json_array_get(list, i), "]", &ignored));
        TESS_CHECK(strncmp(*at, "{/}", 3) == 0, TESS_E_INTERNAL, "no {/} ends the loop '%.40s'", name - 2);
    } while (++i < n);
    if (n == 0 && out->size > before)
        out->data[out->size = before] = '\0';
    *at += 3;
    return TESS_OK;
}

/* Fills a text up to one of the characters `ends`, the end of a loop or its own end. *at: where it ends. *empty: its
 * first cell is empty. */
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
        } else if (strncmp(*at, "{/}", 3) == 0) {
            return TESS_OK;
        } else if (strncmp(*at, "{*", 2) == 0) {
            TESS_TRY(fill_loop(f, at, object));
        } else if (strncmp(*at, "{[}", 3) == 0 || strncmp(*at, "{]}", 3) == 0) {
            TESS_TRY(tess_buffer_append(f->out, *at + 1, 1));
            *at += 3;
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
    TESS_CHECK(*text == '\0', TESS_E_INTERNAL, "a bracket or a loop closes nothing at '%.40s'", text);
    return TESS_OK;
}

/* ---- Columns ---- */
enum { MOST_COLUMNS = 64 };

typedef struct cell {
    const char *text;
    size_t n;
    int width;
    bool right; /* the text stands at the right of its column */
} cell;

/* Takes the next cell of a line. *at: after it. Returns false if there is none. */
static bool next_cell(const char **at, bool is_first, cell *c)
{
    if (!is_first && !is_separator(**at))
        return false;
    c->right = **at == '\v';
    *at += c->right || !is_first;
    c->text = *at;
    c->n = strcspn(*at, "\t\v\n");
    c->width = tess_utf8_count(c->text, c->n);
    *at += c->n;
    return true;
}

/* Finds the widths of the columns of the lines up to an empty line. Returns the end of these lines. */
static const char *measure(const char *text, int width[MOST_COLUMNS])
{
    cell c, next;
    memset(width, 0, MOST_COLUMNS * sizeof(*width));
    for (; *text != '\0' && *text != '\n'; text += *text == '\n') {
        bool more = next_cell(&text, true, &c);
        for (int i = 0; more; i++, c = next) {
            more = next_cell(&text, false, &next);
            if (i < MOST_COLUMNS && c.width > width[i] && (more || i > 0)) /* a line of one cell has no columns */
                width[i] = c.width;
        }
    }
    return text;
}

/* Appends a line whose columns have these widths, without spaces at its end. Returns what follows it. */
static tess_status put_columns(tess_buffer *out, const char **line, const int width[MOST_COLUMNS])
{
    cell c;
    int i = 0;
    for (; next_cell(line, i == 0, &c); i++) {
        int missing = i < MOST_COLUMNS && width[i] > c.width ? width[i] - c.width : 0;
        bool alone = i == 0 && !is_separator(**line);
        TESS_TRY(tess_buffer_printf(out, "%*s%.*s%*s", c.right ? missing : 0, "", (int)c.n, c.text,
                                    c.right || alone ? 0 : missing, ""));
    }
    while (i > 1 && out->size > 0 && out->data[out->size - 1] == ' ')
        out->size--;
    const bool ends = **line == '\n';
    *line += ends;
    return tess_buffer_append(out, "\n", ends);
}

/* Aligns the columns of the text from `begin` on. */
static tess_status align(tess_buffer *out, size_t begin)
{
    int width[MOST_COLUMNS];
    char *copy;
    if (out->size == begin || strpbrk(out->data + begin, "\t\v") == NULL)
        return TESS_OK;
    TESS_CHECK((copy = strdup(out->data + begin)) != NULL, TESS_E_NOMEM, "no memory to align a report");
    tess_status status = TESS_OK;
    out->size = begin;
    for (const char *at = copy; *at != '\0' && status == TESS_OK;) {
        const char *end = measure(at, width);
        while (at < end && status == TESS_OK)
            status = put_columns(out, &at, width);
        for (; *at == '\n' && status == TESS_OK; at++)
            status = tess_buffer_append(out, "\n", 1);
    }
    free(copy);
    return status;
}

tess_status tess_form_print(tess_buffer *out, const tess_form_part *form, int n_columns, const json_t *report)
{
    const filling f = {out, n_columns, "-"};
    const size_t begin = out->size;
    for (const tess_form_part *part = form; part->text != NULL; part++) {
        size_t i;
        const json_t *item, *list = part->list != NULL ? find_member(report, part->list, strlen(part->list)) : NULL;
        if (part->list == NULL)
            TESS_TRY(fill_all(&f, part->text, report));
        else
            json_array_foreach (list, i, item)
                TESS_TRY(fill_all(&f, part->text, item));
    }
    return align(out, begin);
}

tess_status tess_form_fill(tess_buffer *out, const char *text, const json_t *members)
{
    const filling f = {out, TESS_FORM_WIDTH, ""};
    return fill_all(&f, text, members);
}

json_t *tess_form_number(double value, bool as_json)
{
    return isfinite(value) || as_json ? tess_json_number(value) : json_sprintf("%g", value);
}
