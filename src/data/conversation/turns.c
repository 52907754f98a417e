#include "data/conversation/turns.h"

#include <string.h>

enum {
    /* Number of first turns that are rendered; later ones are rendered only if their number is a power of 2 */
    FIRST_TURNS = 32,
    RENDERED_LIMIT = 1 << 30 /* limit for the bytes of all renderings of one conversation */
};

typedef struct turn_finder {
    const tess_chat *how;
    const json_t *messages, *tools;
    const tess_buffer *text;
    tess_chat_span *written; /* (number of messages) what a loop of the template wrote for each message */
    json_t *head;            /* the messages before the current one, as an array */
    size_t rendered;         /* bytes rendered so far */
    bool alike, learnt;      /* alike: the next three members hold for all turns so far; learnt: a turn was rendered */
    /* Opening of the first turn: from where the loop began to write the turn up to its answer */
    tess_chat_span first;
    size_t opening;    /* length of `first` */
    ptrdiff_t closing; /* number of bytes of a turn after what the loop wrote for it */
} turn_finder;

static bool begins(const tess_buffer *text, const tess_buffer *part)
{
    return part->size <= text->size && (part->size == 0 || memcmp(text->data, part->data, part->size) == 0);
}

/* ---- By rendering ---- */
static tess_status render(turn_finder *f, bool prompts, tess_buffer *text)
{
    TESS_TRY(tess_conversation_write(f->how, f->head, f->tools, prompts, text, NULL));
    f->rendered += text->size;
    TESS_CHECK(f->rendered <= RENDERED_LIMIT, TESS_E_UNSUPPORTED,
               "finding the assistant's part of %zu messages takes too long with this chat template; use one with {%% "
               "generation %%} blocks around what the assistant writes",
               json_array_size(f->messages));
    return TESS_OK;
}

static tess_status extend_head(turn_finder *f, size_t i)
{
    TESS_CHECK(json_array_append(f->head, json_array_get(f->messages, i)) == 0, TESS_E_NOMEM,
               "no memory for a conversation");
    return TESS_OK;
}

/* Finds the span of message i by rendering, and appends the message to the head. */
static tess_status render_turn(turn_finder *f, size_t i, tess_chat_span *span, bool *same)
{
    TESS_AUTO(tess_buffer_free) tess_buffer before = {.mem = f->text->mem}, after = {.mem = f->text->mem};
    TESS_TRY(render(f, true, &before));
    TESS_TRY(extend_head(f, i));
    TESS_TRY(render(f, false, &after));
    *span = (tess_chat_span){before.size, after.size};
    *same = begins(f->text, &after);
    if (!begins(&after, &before))
        return TESS_FAIL(TESS_E_UNSUPPORTED,
                         "the chat template does not preserve prefixes: what it writes up to message %zu, of the "
                         "assistant, does not begin with the prompt to answer; use one with {%% generation %%} "
                         "blocks around what the assistant writes",
                         i + 1);
    return TESS_OK;
}

/* ---- By what the loop wrote ---- */
/* Whether all texts of a message, except its labels, occur literally in a part of the text. */
static bool shows(const json_t *value, const char *part, size_t size)
{
    static const char *const labels[] = {"role", "type", "id"};
    const char *key;
    const json_t *member;
    if (json_is_string(value)) {
        const char *text = json_string_value(value);
        size_t n = json_string_length(value);
        for (; n > 0 && memchr(" \t\r\n", text[n - 1], 4) != NULL; n--)
            ;
        for (; n > 0 && memchr(" \t\r\n", text[0], 4) != NULL; text++, n--)
            ;
        return n == 0 || memmem(part, size, text, n) != NULL;
    }
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!shows(json_array_get(value, i), part, size))
            return false;
    json_object_foreach ((json_t *)value, key, member) {
        bool label = false;
        for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++)
            label = label || strcmp(key, labels[i]) == 0;
        if (!label && !shows(member, part, size))
            return false;
    }
    return true;
}

/* Compares a rendered turn, which is a part of the text, with the turns before it. The last turn may end differently,
 * because nothing follows it. */
static void learn(turn_finder *f, size_t i, const tess_chat_span *span, bool last)
{
    const tess_chat_span *written = &f->written[i];
    bool known = written->begin < written->end && span->begin >= written->begin;
    size_t opening = span->begin - written->begin;
    ptrdiff_t closing = (ptrdiff_t)(span->end - written->end);
    if (known && !f->learnt) {
        f->first = (tess_chat_span){written->begin, span->begin};
        f->opening = opening;
        f->closing = closing;
    }
    f->learnt = true;
    f->alike = f->alike && known && opening == f->opening && (last || closing == f->closing) &&
               memcmp(f->text->data + f->first.begin, f->text->data + written->begin, opening) == 0;
}

/* Finds the span of message i without rendering. False: the message does not begin like the turns before it, or the
 * span does not contain its texts. */
static bool take_alike(const turn_finder *f, size_t i, tess_chat_span *span)
{
    const tess_chat_span *written = &f->written[i];
    const char *text = f->text->data;
    if (!f->alike || written->end - written->begin <= f->opening ||
        memcmp(text + f->first.begin, text + written->begin, f->opening) != 0)
        return false;
    *span = (tess_chat_span){written->begin + f->opening, (size_t)((ptrdiff_t)written->end + f->closing)};
    return span->begin <= span->end && span->end <= f->text->size &&
           shows(json_array_get(f->messages, i), text + span->begin, span->end - span->begin);
}

/* ---- All turns ---- */
static bool is_turn(const json_t *messages, size_t i)
{
    return strcmp(json_string_value(json_object_get(json_array_get(messages, i), "role")), "assistant") == 0;
}

static tess_status find_all(turn_finder *f, tess_chat_spans *spans, bool *same)
{
    size_t n = json_array_size(f->messages), seen = 0, last = n;
    for (size_t i = 0; i < n; i++)
        last = is_turn(f->messages, i) ? i : last;
    for (size_t i = 0; i < n && *same; i++) {
        tess_chat_span span;
        if (!is_turn(f->messages, i)) {
            TESS_TRY(extend_head(f, i));
            continue;
        }
        seen++;
        bool checked = seen <= FIRST_TURNS || (seen & (seen - 1)) == 0 || i == last;
        if (!checked && take_alike(f, i, &span)) {
            TESS_TRY(extend_head(f, i));
        } else {
            TESS_TRY(render_turn(f, i, &span, same));
            if (*same)
                learn(f, i, &span, i == last);
        }
        TESS_TRY(tess_chat_spans_add(spans, span));
    }
    return TESS_OK;
}

tess_status tess_turns_find(const tess_chat *how, const json_t *messages, const json_t *tools, tess_buffer *text,
                            tess_chat_spans *spans, bool *same)
{
    turn_finder f = {.how = how, .messages = messages, .tools = tools, .text = text, .alike = true};
    size_t n = json_array_size(messages);
    tess_status status;
    *same = true;
    TESS_TRY(TESS_NEW(text->mem, n + 1, "turns", &f.written));
    TESS_GOTO(tess_conversation_write_turns(how, messages, tools, text, f.written), written);
    f.head = json_array();
    status = f.head != NULL ? find_all(&f, spans, same) : TESS_FAIL(TESS_E_NOMEM, "no memory for a conversation");
written:
    tess_mem_free(text->mem, f.written);
    json_decref(f.head);
    return status;
}
