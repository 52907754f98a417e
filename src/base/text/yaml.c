#include "base/text/yaml.h"

#include <jansson.h>
#include <string.h>
#include <yaml.h>

#include "base/text/list_text.h"
#include "base/text/text.h"

typedef struct yaml_reader {
    yaml_parser_t parser;
    yaml_event_t event;
    bool have_event;
    const char *what, *text; /* text: the whole input, `size` bytes */
    size_t size;
    tess_buffer key, value;
    json_t *lines;       /* the line of each key read so far; sections are entered as "section." */
    size_t section_size; /* length of "section." at the start of key */
    tess_yaml_fn fn;
    void *context;
} yaml_reader;

static int line_of(const yaml_reader *r)
{
    return (int)r->event.start_mark.line + 1;
}

/* Whether the line with this number (from 0) is indented with a tab, which YAML forbids. */
static bool has_tab(const yaml_reader *r, size_t line)
{
    const char *at = r->text, *end = r->text + r->size;
    for (; line > 0 && at < end; line--) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        at = newline != NULL ? newline + 1 : end;
    }
    while (at < end && *at == ' ')
        at++;
    return at < end && *at == '\t';
}

static tess_status next(yaml_reader *r)
{
    if (r->have_event)
        yaml_event_delete(&r->event);
    r->have_event = false;
    if (!yaml_parser_parse(&r->parser, &r->event)) {
        TESS_CHECK(r->parser.error != YAML_MEMORY_ERROR, TESS_E_NOMEM, "%s: no memory to read it", r->what);
        size_t line = r->parser.problem_mark.line + 1;
        TESS_CHECK(!has_tab(r, line - 1), TESS_E_FORMAT,
                   "%s:%zu: the line is indented with a tab, which YAML forbids: indent it with spaces", r->what, line);
        return TESS_FAIL(TESS_E_FORMAT, "%s:%zu: not valid YAML: %s", r->what, line,
                         r->parser.problem != NULL ? r->parser.problem : "unreadable");
    }
    r->have_event = true;
    return TESS_OK;
}

static tess_status append_scalar(yaml_reader *r, tess_buffer *out)
{
    const char *text = (const char *)r->event.data.scalar.value;
    size_t n = r->event.data.scalar.length;
    TESS_CHECK(memchr(text, '\0', n) == NULL, TESS_E_FORMAT, "%s:%d: a NUL character", r->what, line_of(r));
    TESS_CHECK(r->event.data.scalar.anchor == NULL, TESS_E_UNSUPPORTED, "%s:%d: anchors are not supported", r->what,
               line_of(r));
    return tess_buffer_append(out, text, n);
}

/* Refuses a key that was given before; otherwise the second value would silently replace the first. */
static tess_status add_key(yaml_reader *r)
{
    int line = line_of(r);
    json_int_t first = json_integer_value(json_object_get(r->lines, r->key.data));
    TESS_CHECK(first == 0, TESS_E_FORMAT, "%s:%d: '%.*s' is given again: it is on line %lld already; keep one", r->what,
               line, (int)(r->key.size - (r->key.data[r->key.size - 1] == '.')), r->key.data, (long long)first);
    TESS_CHECK(json_object_set_new_nocheck(r->lines, r->key.data, json_integer(line)) == 0, TESS_E_NOMEM,
               "%s: no memory for its keys", r->what);
    return TESS_OK;
}

/* Appends a scalar to the list in `value`. */
static tess_status append_item(yaml_reader *r)
{
    char quoted[TESS_LIST_MAX_QUOTED];
    if (r->value.size > 0)
        TESS_TRY(tess_buffer_append(&r->value, ",", 1));
    const size_t begin = r->value.size;
    TESS_TRY(append_scalar(r, &r->value));
    TESS_CHECK(r->value.size - begin <= TESS_LIST_MAX_ITEM, TESS_E_FORMAT, "%s:%d: %s: an item of more than %d bytes",
               r->what, line_of(r), r->key.data, TESS_LIST_MAX_ITEM);
    tess_list_quote(r->value.data + begin, quoted);
    r->value.size = begin;
    return tess_buffer_append(&r->value, quoted, strlen(quoted));
}

/* Reads the value of a key: a scalar, or a list of scalars. */
static tess_status read_value(yaml_reader *r)
{
    int line = line_of(r);
    r->value.size = 0;
    TESS_TRY(tess_buffer_append(&r->value, "", 0));
    if (r->event.type == YAML_SCALAR_EVENT) {
        TESS_TRY(append_scalar(r, &r->value));
    } else if (r->event.type == YAML_SEQUENCE_START_EVENT) {
        for (;;) {
            TESS_TRY(next(r));
            if (r->event.type == YAML_SEQUENCE_END_EVENT)
                break;
            TESS_CHECK(r->event.type == YAML_SCALAR_EVENT, TESS_E_FORMAT, "%s:%d: %s: a list holds plain values only",
                       r->what, line_of(r), r->key.data);
            TESS_TRY(append_item(r));
        }
    } else {
        return TESS_FAIL(TESS_E_FORMAT, "%s:%d: %s: expected a value or a list of values", r->what, line, r->key.data);
    }
    return r->fn(r->context, r->key.data, r->value.data, line);
}

static tess_status read_section(yaml_reader *r)
{
    for (;;) {
        TESS_TRY(next(r));
        if (r->event.type == YAML_MAPPING_END_EVENT)
            return TESS_OK;
        TESS_CHECK(r->event.type == YAML_SCALAR_EVENT, TESS_E_FORMAT, "%s:%d: expected a key", r->what, line_of(r));
        r->key.size = r->section_size;
        TESS_TRY(append_scalar(r, &r->key));
        TESS_TRY(add_key(r));
        TESS_TRY(next(r));
        TESS_TRY(read_value(r));
    }
}

static tess_status read_document(yaml_reader *r)
{
    do
        TESS_TRY(next(r));
    while (r->event.type == YAML_STREAM_START_EVENT || r->event.type == YAML_DOCUMENT_START_EVENT);
    if (r->event.type == YAML_STREAM_END_EVENT)
        return TESS_OK; /* an empty file: all keys keep their defaults */
    TESS_CHECK(r->event.type == YAML_MAPPING_START_EVENT, TESS_E_FORMAT,
               "%s:%d: expected sections such as 'training:' with their keys indented below", r->what, line_of(r));
    for (;;) {
        TESS_TRY(next(r));
        if (r->event.type == YAML_MAPPING_END_EVENT)
            break;
        TESS_CHECK(r->event.type == YAML_SCALAR_EVENT, TESS_E_FORMAT, "%s:%d: expected a section's name", r->what,
                   line_of(r));
        r->key.size = 0;
        TESS_TRY(append_scalar(r, &r->key));
        const size_t name_size = r->key.size;
        TESS_TRY(tess_buffer_append(&r->key, ".", 1));
        TESS_TRY(add_key(r));
        TESS_TRY(next(r));
        /* "section:" with nothing below it is an empty scalar. */
        if (r->event.type == YAML_SCALAR_EVENT && r->event.data.scalar.length == 0)
            continue;
        if (r->event.type != YAML_MAPPING_START_EVENT) {
            r->key.data[name_size] = '\0';
            const char *dot = strchr(r->key.data, '.');
            TESS_TRY(r->fn(r->context, r->key.data, NULL, line_of(r)));
            TESS_CHECK(dot == NULL, TESS_E_FORMAT,
                       "%s:%d: '%s' stands outside of its section: write '%.*s:' and below it, indented, '%s: ...'",
                       r->what, line_of(r), r->key.data, (int)(dot - r->key.data), r->key.data, dot + 1);
            return TESS_FAIL(TESS_E_FORMAT, "%s:%d: '%s' is a section: its keys belong on lines of their own, indented",
                             r->what, line_of(r), r->key.data);
        }
        r->section_size = r->key.size;
        TESS_TRY(read_section(r));
    }
    TESS_TRY(next(r)); /* the end of the document */
    TESS_TRY(next(r));
    TESS_CHECK(r->event.type == YAML_STREAM_END_EVENT, TESS_E_FORMAT, "%s:%d: a second document", r->what, line_of(r));
    return TESS_OK;
}

tess_status tess_yaml_parse(tess_mem *mem, const char *text, size_t size, const char *what, tess_yaml_fn fn,
                            void *context)
{
    yaml_reader r = {.what = what,
                     .text = text,
                     .size = size,
                     .fn = fn,
                     .context = context,
                     .key = {.mem = mem},
                     .value = {.mem = mem},
                     .lines = json_object()};
    TESS_CHECK(yaml_parser_initialize(&r.parser), TESS_E_NOMEM, "%s: no memory for the YAML parser", what);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, size);
    tess_status status = read_document(&r);
    if (r.have_event)
        yaml_event_delete(&r.event);
    yaml_parser_delete(&r.parser);
    json_decref(r.lines);
    tess_buffer_free(&r.key);
    tess_buffer_free(&r.value);
    return status;
}
