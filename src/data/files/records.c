#include "data/files/records.h"

#include <string.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void step_inside(tess_array_scan *s, char c)
{
    if (s->escaped)
        s->escaped = false;
    else if (s->in_string && c == '\\')
        s->escaped = true;
    else if (c == '"')
        s->in_string = !s->in_string;
    else if (!s->in_string && (c == '{' || c == '['))
        s->depth++;
    else if (!s->in_string && (c == '}' || c == ']') && --s->depth == 0)
        s->state = TESS_ARRAY_AFTER;
}

/* Handles one byte outside of objects. False: the byte does not belong there. */
static bool step_between(tess_array_scan *s, char c)
{
    bool byte_order_mark = s->state == TESS_ARRAY_OPEN && memchr("\xef\xbb\xbf", c, 3) != NULL;
    if (is_blank(c) || byte_order_mark)
        return true;
    bool may_close = s->state == TESS_ARRAY_FIRST || s->state == TESS_ARRAY_AFTER;
    bool may_begin = s->state == TESS_ARRAY_FIRST || s->state == TESS_ARRAY_NEXT;
    if (c == '[' && s->state == TESS_ARRAY_OPEN)
        s->state = TESS_ARRAY_FIRST;
    else if (c == ']' && may_close)
        s->state = TESS_ARRAY_CLOSED;
    else if (c == ',' && s->state == TESS_ARRAY_AFTER)
        s->state = TESS_ARRAY_NEXT;
    else if (c == '{' && may_begin)
        *s = (tess_array_scan){.state = TESS_ARRAY_INSIDE, .depth = 1};
    else
        return false;
    return true;
}

tess_status tess_array_scan_go(tess_array_scan *scan, const char *data, size_t n, size_t *taken, bool *at_cut)
{
    static const char *const expected[] = {"'['", "an object or ']'", "an object", "", "',' or ']'", "nothing more"};
    *at_cut = false;
    for (*taken = 0; *taken < n && !*at_cut; ++*taken) {
        tess_array_state before = scan->state;
        if (before == TESS_ARRAY_INSIDE) {
            step_inside(scan, data[*taken]);
            continue;
        }
        TESS_CHECK(step_between(scan, data[*taken]), TESS_E_FORMAT,
                   "expected %s in an array of JSON objects, which are the records", expected[before]);
        *at_cut = scan->state != before && (scan->state == TESS_ARRAY_NEXT || scan->state == TESS_ARRAY_CLOSED);
    }
    return TESS_OK;
}

tess_status tess_array_scan_end(const tess_array_scan *scan)
{
    TESS_CHECK(scan->state == TESS_ARRAY_CLOSED, TESS_E_FORMAT, "the JSON array is not closed: the file is cut off");
    return TESS_OK;
}

tess_records tess_records_of(tess_text_kind kind, const char *text, size_t size)
{
    size_t at = 0;
    while (at < size && is_blank(text[at]))
        at++;
    bool opens = at < size && (text[at] == '[' || text[at] == '\xef');
    return (tess_records){
        .kind = kind, .text = text, .size = size, .scan.state = opens ? TESS_ARRAY_OPEN : TESS_ARRAY_NEXT};
}

static tess_status next_element(tess_records *r, bool *there)
{
    size_t taken;
    bool at_cut;
    for (*there = false; r->next < r->size && !*there; r->next += taken) {
        const char *from = r->text + r->next;
        tess_status status = tess_array_scan_go(&r->scan, from, r->size - r->next, &taken, &at_cut);
        r->begin = r->next + taken;
        TESS_TRY(status);
        const char *object = memchr(from, '{', taken);
        if (object == NULL) /* only blanks and brackets */
            continue;
        if (!at_cut)
            return tess_array_scan_end(&r->scan);
        const char *end = from + taken - 1; /* `end` is at the comma, or at the end of the array */
        while (is_blank(end[-1]))
            end--;
        r->begin = (size_t)(object - r->text);
        r->length = (size_t)(end - object);
        *there = true;
    }
    return TESS_OK;
}

static void next_line(tess_records *r, bool *there)
{
    *there = r->next < r->size;
    if (!*there)
        return;
    const char *line = r->text + r->next, *end = memchr(line, '\n', r->size - r->next);
    r->begin = r->next;
    r->length = end != NULL ? (size_t)(end - line) : r->size - r->next;
    r->next += r->length + (end != NULL);
}

tess_status tess_records_end(const tess_records *records)
{
    return records->kind == TESS_TEXT_ARRAY ? tess_array_scan_end(&records->scan) : TESS_OK;
}

tess_status tess_records_next(tess_records *records, bool *there)
{
    if (records->kind == TESS_TEXT_ARRAY)
        return next_element(records, there);
    next_line(records, there);
    return TESS_OK;
}
