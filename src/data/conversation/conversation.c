#include "data/conversation/conversation.h"

#include <string.h>

#include "base/mem/make_room.h"
#include "base/text/json.h"

/* A copy of the messages without members that are null, as transformers hands them to a template; NULL: no memory. */
static json_t *without_nulls(const json_t *messages)
{
    json_t *all = json_array();
    for (size_t i = 0; i < json_array_size(messages) && all != NULL; i++) {
        const char *key;
        json_t *value, *message = json_object();
        json_object_foreach (json_array_get(messages, i), key, value)
            if (!json_is_null(value))
                json_object_set(message, key, value);
        if (json_array_append_new(all, message) == 0)
            continue;
        json_decref(all);
        all = NULL;
    }
    return all;
}

tess_status tess_conversation_write(const tess_chat *how, const json_t *messages, const json_t *tools, bool prompts,
                                    tess_buffer *text, tess_chat_spans *spans)
{
    TESS_CHECK(json_is_array(messages), TESS_E_FORMAT, "'messages' is not a list");
    TESS_CHECK(tools == NULL || json_is_null(tools) || json_is_array(tools), TESS_E_FORMAT, "'tools' is not a list");
    for (size_t i = 0; i < json_array_size(messages); i++)
        TESS_CHECK(json_is_string(json_object_get(json_array_get(messages, i), "role")), TESS_E_FORMAT,
                   "message %zu is not an object with a string 'role'", i + 1);
    json_t *present = without_nulls(messages);
    TESS_CHECK(present != NULL, TESS_E_NOMEM, "no memory for a conversation");
    const tess_chat_input input = {.messages = present,
                                   .tools = tools,
                                   .extra = how->variables,
                                   .add_generation_prompt = prompts,
                                   .now_s = how->now_s};
    tess_status status = tess_chat_template_render(how->chat, &input, text, spans);
    json_decref(present);
    return status;
}

/* ---- What the assistant wrote, in bytes ---- */
static tess_status add_span(tess_chat_spans *spans, size_t begin, size_t end)
{
    TESS_TRY(tess_mem_reserve(spans->mem, TESS_POOL_MISC, spans->n + 1, sizeof(*spans->item), "spans", &spans->room,
                              &spans->item));
    spans->item[spans->n++] = (tess_chat_span){begin, end};
    return TESS_OK;
}

static bool begins(const tess_buffer *text, const tess_buffer *part)
{
    return part->size <= text->size && (part->size == 0 || memcmp(text->data, part->data, part->size) == 0);
}

/* The part of message i, from what is before it and up to it. `head` holds the first i messages. */
static tess_status find_turn(const tess_chat *how, json_t *head, json_t *message, size_t i, const json_t *tools,
                             const tess_buffer *text, tess_chat_spans *spans)
{
    tess_buffer before = {.mem = spans->mem}, after = {.mem = spans->mem};
    tess_status status;
    TESS_GOTO(tess_conversation_write(how, head, tools, true, &before, NULL), written);
    if (json_array_append(head, message) != 0)
        status = TESS_FAIL(TESS_E_NOMEM, "no memory for a conversation");
    if (status == TESS_OK)
        status = tess_conversation_write(how, head, tools, false, &after, NULL);
    if (status == TESS_OK && (!begins(&after, &before) || !begins(text, &after)))
        status = TESS_FAIL(TESS_E_UNSUPPORTED,
                           "the chat template does not preserve prefixes: it writes message %zu, of the assistant, "
                           "otherwise %s; use one with {%% generation %%} blocks around what the assistant writes",
                           i + 1, begins(&after, &before) ? "once others follow" : "than after its prompt to answer");
    if (status == TESS_OK)
        status = add_span(spans, before.size, after.size);
written:
    tess_buffer_free(&before);
    tess_buffer_free(&after);
    return status;
}

static tess_status find_turns(const tess_chat *how, const json_t *messages, const json_t *tools,
                              const tess_buffer *text, tess_chat_spans *spans)
{
    json_t *head = json_array();
    tess_status status = head != NULL ? TESS_OK : TESS_FAIL(TESS_E_NOMEM, "no memory for a conversation");
    for (size_t i = 0; i < json_array_size(messages) && status == TESS_OK; i++) {
        json_t *message = json_array_get(messages, i);
        if (strcmp(json_string_value(json_object_get(message, "role")), "assistant") == 0)
            status = find_turn(how, head, message, i, tools, text, spans);
        else if (json_array_append(head, message) != 0)
            status = TESS_FAIL(TESS_E_NOMEM, "no memory for a conversation");
    }
    json_decref(head);
    return status;
}

/* ---- The same in tokens ---- */
/* Bytes of the text that a token stands for. */
static tess_status bytes_of(const tess_tokenizer *tokenizer, int32_t id, tess_buffer *scratch, size_t *bytes)
{
    *bytes = (size_t)tess_tokenizer_bytes(tokenizer, id);
    if (!tess_tokenizer_is_special(tokenizer, id))
        return TESS_OK;
    scratch->size = 0;
    TESS_TRY(tess_decode(tokenizer, &id, 1, false, scratch));
    *bytes = scratch->size;
    return TESS_OK;
}

/* Where each token ends in the text: places (n). *exact is false where the tokens are not simply pieces of it. */
static tess_status place_tokens(const tess_chat *how, const int32_t *ids, size_t n, size_t size, size_t *places,
                                tess_mem *mem, bool *exact)
{
    tess_buffer scratch = {.mem = mem};
    tess_status status = TESS_OK;
    size_t at = 0;
    for (size_t i = 0; i < n && status == TESS_OK; i++) {
        size_t bytes = 0;
        status = bytes_of(how->tokenizer, ids[i], &scratch, &bytes);
        places[i] = at += bytes;
    }
    tess_buffer_free(&scratch);
    *exact = at == size;
    return status;
}

/* Marks the tokens that hold a byte of a span. Spans and tokens are in order. */
static void mark_pieces(const size_t *places, size_t n, const tess_chat_spans *spans, char *marks)
{
    for (size_t s = 0; s < spans->n; s++) {
        const tess_chat_span *span = &spans->item[s];
        for (size_t i = 0, begin = 0; i < n; begin = places[i++])
            if (begin < span->end && places[i] > span->begin)
                marks[i] = 1;
    }
}

/* How many of the ids the first `size` bytes of the text are. */
static tess_status count_before(tess_encoder *encoder, const tess_buffer *text, size_t size, const int32_t *ids,
                                size_t n, size_t *count)
{
    tess_ids head = {.mem = text->mem};
    tess_status status = tess_encode(encoder, text->data, size, false, &head);
    bool same = status == TESS_OK && head.size <= n && memcmp(head.data, ids, head.size * sizeof(*ids)) == 0;
    *count = head.size;
    tess_ids_free(&head);
    TESS_TRY(status);
    TESS_CHECK(same, TESS_E_UNSUPPORTED,
               "a token holds what the assistant wrote and what it did not: with this tokenizer it cannot be told "
               "which tokens to train on");
    return TESS_OK;
}

/* For tokenizers whose tokens are not simply pieces of the text. */
static tess_status mark_prefixes(tess_encoder *encoder, const tess_buffer *text, const int32_t *ids, size_t n,
                                 const tess_chat_spans *spans, char *marks)
{
    for (size_t s = 0; s < spans->n; s++) {
        size_t begin = 0, end = n;
        if (spans->item[s].begin > 0)
            TESS_TRY(count_before(encoder, text, spans->item[s].begin, ids, n, &begin));
        if (spans->item[s].end < text->size)
            TESS_TRY(count_before(encoder, text, spans->item[s].end, ids, n, &end));
        for (size_t i = begin; i < end; i++)
            marks[i] = 1;
    }
    return TESS_OK;
}

static tess_status mark(const tess_chat *how, tess_encoder *encoder, const tess_buffer *text,
                        const tess_chat_spans *spans, const int32_t *ids, size_t n, tess_buffer *loss)
{
    void *places;
    bool exact;
    size_t begin = loss->size;
    static const char zeroes[256];
    for (size_t left = n; left > 0;) {
        size_t part = left < sizeof(zeroes) ? left : sizeof(zeroes);
        TESS_TRY(tess_buffer_append(loss, zeroes, part));
        left -= part;
    }
    TESS_TRY(tess_mem_alloc_array(loss->mem, TESS_POOL_MISC, n, sizeof(size_t), "places of tokens", &places));
    tess_status status = place_tokens(how, ids, n, text->size, places, loss->mem, &exact);
    if (status == TESS_OK && exact)
        mark_pieces(places, n, spans, loss->data + begin);
    else if (status == TESS_OK)
        status = mark_prefixes(encoder, text, ids, n, spans, loss->data + begin);
    tess_mem_free(loss->mem, places);
    return status;
}

/* All behind the first n messages and the prompt to answer them. */
static tess_status find_completion(const tess_chat *how, const json_t *messages, size_t n, const json_t *tools,
                                   const tess_buffer *text, tess_chat_spans *spans)
{
    tess_buffer before = {.mem = spans->mem};
    json_t *head = json_array();
    tess_status status = head != NULL ? TESS_OK : TESS_FAIL(TESS_E_NOMEM, "no memory for a conversation");
    for (size_t i = 0; i < n && status == TESS_OK; i++)
        if (json_array_append(head, json_array_get(messages, i)) != 0)
            status = TESS_FAIL(TESS_E_NOMEM, "no memory for a conversation");
    if (status == TESS_OK)
        status = tess_conversation_write(how, head, tools, true, &before, NULL);
    if (status == TESS_OK && !begins(text, &before))
        status = TESS_FAIL(TESS_E_UNSUPPORTED, "the chat template does not preserve prefixes: with its completion the "
                                               "prompt is written otherwise than alone");
    if (status == TESS_OK && before.size < text->size)
        status = add_span(spans, before.size, text->size);
    json_decref(head);
    tess_buffer_free(&before);
    return status;
}

tess_status tess_conversation_encode(const tess_chat *how, tess_encoder *encoder, const json_t *messages,
                                     size_t n_prompt, const json_t *tools, tess_ids *ids, tess_buffer *loss)
{
    tess_buffer text = {.mem = loss->mem};
    tess_chat_spans spans = {.mem = loss->mem};
    size_t begin = ids->size;
    tess_status status;
    TESS_GOTO(tess_conversation_write(how, messages, tools, false, &text, n_prompt == 0 ? &spans : NULL), written);
    if (n_prompt > 0)
        TESS_GOTO(find_completion(how, messages, n_prompt, tools, &text, &spans), written);
    else if (!tess_chat_template_marks(how->chat))
        TESS_GOTO(find_turns(how, messages, tools, &text, &spans), written);
    TESS_GOTO(tess_encode(encoder, text.size > 0 ? text.data : "", text.size, false, ids), written);
    if (ids->size > begin)
        status = mark(how, encoder, &text, &spans, ids->data + begin, ids->size - begin, loss);
written:
    tess_chat_spans_free(&spans);
    tess_buffer_free(&text);
    return status;
}
