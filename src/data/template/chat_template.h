/* Chat templates as models ship them. Implements the part of Jinja that they use, with jinja2's output under the
 * settings of transformers (trim_blocks, lstrip_blocks, loop controls, the immutable sandbox, `{% generation %}`).
 *
 * Supported:
 * - statements: if, for (with a condition, else, loop.*, break, continue), set (names, tuples, namespaces, blocks),
 *   macro, call, filter, with, raw, generation
 * - all of Jinja's expressions, except * and ** in calls
 * - the filters, tests and methods in the tables of template_filters.c, template_tests.c and template_methods.c
 * - the functions range, namespace, dict, raise_exception, strftime_now
 * A template that uses anything else (include, import, extends, recursive loops, a filter outside the table) is
 * refused; the message names what it uses. Text is UTF-8 and counted in characters. Upper and lower case map one
 * character to one character (of those that would become several, only U+00DF does).
 *
 * A template from an untrusted source costs bounded time, memory and stack. A template does not change once parsed, so
 * any number of threads may render it. Sources: jinja.palletsprojects.com (3.1), transformers'
 * utils/chat_template_utils.py. */
#ifndef TESS_DATA_TEMPLATE_CHAT_TEMPLATE_H
#define TESS_DATA_TEMPLATE_CHAT_TEMPLATE_H

#include <jansson.h>

#include "base/text/text.h"

typedef struct tess_chat_template tess_chat_template;

/* Parses a copy of `text`, which need not be NUL-terminated. TESS_E_FORMAT: it is not a template. TESS_E_UNSUPPORTED:
 * it uses something that is not supported. Messages name the line. */
tess_status tess_chat_template_parse(tess_mem *mem, const char *text, size_t size, tess_chat_template **out);
void tess_chat_template_destroy(tess_chat_template **chat);
/* Whether the template has `{% generation %}` blocks. */
bool tess_chat_template_marks(const tess_chat_template *chat);
/* Returns the template's text, which the template owns. */
const char *tess_chat_template_source(const tess_chat_template *chat, size_t *size);
/* Returns a hash of the template's text. */
uint64_t tess_chat_template_hash(const tess_chat_template *chat);

/* The inputs of a template. All are borrowed. */
typedef struct tess_chat_input {
    const json_t *messages;     /* an array of objects */
    const json_t *tools;        /* an array; NULL: none */
    const json_t *documents;    /* an array; NULL: none */
    const json_t *extra;        /* an object of further variables (bos_token, enable_thinking); NULL: none */
    bool add_generation_prompt; /* end with the beginning of the assistant's answer */
    /* Time for strftime_now, in UTC; not the clock, which would make data differ from run to run */
    int64_t now_s;
} tess_chat_input;

/* A range of bytes of the output, such as the content of a `{% generation %}` block. */
typedef struct tess_chat_span {
    size_t begin, end;
} tess_chat_span;

typedef struct tess_chat_spans {
    tess_mem *mem;
    tess_chat_span *item;
    size_t n, room;
} tess_chat_spans;
tess_status tess_chat_spans_add(tess_chat_spans *spans, tess_chat_span span);
void tess_chat_spans_free(tess_chat_spans *spans);

/* Renders a template. Appends the text to `out`, and the ranges of its generation blocks in `out` to `spans` (may be
 * NULL), in order. After a failure nothing is appended:
 *   TESS_E_INVALID      the template refuses the input (raise_exception), evaluates something that has no value (an
 *                       attribute of an undefined value), takes too many steps or too much memory, or is nested too
 *                       deeply; the message names the line
 *   TESS_E_UNSUPPORTED  a filter, test or method that is not supported */
tess_status tess_chat_template_render(const tess_chat_template *chat, const tess_chat_input *input, tess_buffer *out,
                                      tess_chat_spans *spans);
/* Renders a template, and sets `turns` (one per message): the range in `out` that a loop over the messages writes for
 * each message. The range is empty if no loop writes the message, or more than one does. */
tess_status tess_chat_template_render_turns(const tess_chat_template *chat, const tess_chat_input *input,
                                            tess_buffer *out, tess_chat_span *turns);

#endif
