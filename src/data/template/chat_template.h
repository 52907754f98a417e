/* Chat templates as models ship them: the part of Jinja that they use, with jinja2's output under the settings of
 * transformers (trim_blocks, lstrip_blocks, loop controls, the immutable sandbox, `{% generation %}`).
 *
 * Supported: if, for (with a condition, else, loop.*, break, continue), set (of names, tuples, namespaces, blocks),
 * macro, call, filter, with, raw, generation; all of Jinja's expressions but * and ** of calls; filters, tests and
 * methods by the tables of template_filters.c, template_tests.c and template_methods.c; range, namespace, dict,
 * raise_exception, strftime_now. A template that asks for anything else (include, import, extends, recursive loops, a
 * filter outside the table) is refused by name. Text is UTF-8 and is counted in characters. Upper and lower case map
 * one character to one (of those that become several, only U+00DF does).
 *
 * A template of unknown origin costs bounded time, memory and stack. Immutable once parsed: any number of threads may
 * render it. Source: jinja.palletsprojects.com (3.1), transformers' utils/chat_template_utils.py. */
#ifndef TESS_DATA_TEMPLATE_CHAT_TEMPLATE_H
#define TESS_DATA_TEMPLATE_CHAT_TEMPLATE_H

#include <jansson.h>

#include "base/text/text.h"

typedef struct tess_chat_template tess_chat_template;

/* Copies `text`, which is not NUL-terminated. TESS_E_FORMAT: not a template; TESS_E_UNSUPPORTED: it uses what is not
 * supported. Messages name the line. */
tess_status tess_chat_template_parse(tess_mem *mem, const char *text, size_t size, tess_chat_template **out);
void tess_chat_template_destroy(tess_chat_template **chat);
/* Whether it has `{% generation %}` blocks. */
bool tess_chat_template_marks(const tess_chat_template *chat);
/* Its text, which it owns. */
const char *tess_chat_template_source(const tess_chat_template *chat, size_t *size);
/* A hash of its text. */
uint64_t tess_chat_template_hash(const tess_chat_template *chat);

/* The inputs of a template; all borrowed. */
typedef struct tess_chat_input {
    const json_t *messages;     /* an array of objects */
    const json_t *tools;        /* an array; NULL: none */
    const json_t *documents;    /* an array; NULL: none */
    const json_t *extra;        /* an object of further variables (bos_token, enable_thinking); NULL: none */
    bool add_generation_prompt; /* end with the beginning of the assistant's answer */
    int64_t now_s;              /* time of strftime_now, in UTC: a clock would make data differ from run to run */
} tess_chat_input;

/* Bytes of the output inside a `{% generation %}` block. */
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

/* Appends the text to `out`, and to `spans` (may be NULL) those of its generation blocks, in order, as places in
 * `out`. TESS_E_INVALID: the template refuses the input (raise_exception), or computes what cannot be computed (an
 * attribute of an undefined value), or it takes too many steps, too much memory, or is nested too deeply; the message
 * names the line. TESS_E_UNSUPPORTED: a filter, test or method that is not supported. Nothing is appended then. */
tess_status tess_chat_template_render(const tess_chat_template *chat, const tess_chat_input *input, tess_buffer *out,
                                      tess_chat_spans *spans);
/* Likewise. turns (one a message): what a loop over the messages writes for each, as places in `out`. Empty where no
 * loop does, or more than one. */
tess_status tess_chat_template_render_turns(const tess_chat_template *chat, const tess_chat_input *input,
                                            tess_buffer *out, tess_chat_span *turns);

#endif
