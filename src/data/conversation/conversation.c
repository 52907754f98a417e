#include "data/conversation/conversation.h"

#include <string.h>

#include "base/mem/make_room.h"
#include "base/text/json.h"
#include "data/conversation/training_template.h"
#include "data/conversation/turns.h"

/* ---- The tokens that the assistant wrote ---- */
/* Returns the number of bytes of text that a token stands for. */
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

/* Finds where each token ends in the text: places (n). *exact: the tokens cover the text exactly, byte for byte. */
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

/* Marks the tokens that contain a byte of a span. */
static void mark_pieces(const size_t *places, size_t n, const tess_chat_spans *spans, char *marks)
{
    size_t first = 0; /* the first token that ends after the beginning of the span */
    for (size_t s = 0; s < spans->n; s++) {
        const tess_chat_span *span = &spans->item[s];
        while (first > 0 && places[first - 1] > span->begin) /* blocks may be nested */
            first--;
        while (first < n && places[first] <= span->begin)
            first++;
        for (size_t i = first; i < n && (i > 0 ? places[i - 1] : 0) < span->end; i++)
            marks[i] = marks[i] != 0 || places[i] > span->begin;
    }
}

/* A position in the text between two tokens. */
typedef struct token_bound {
    size_t byte, token;
} token_bound;

/* Checks whether the text from `from` to byte `end` is encoded as the ids that follow `from`. If *same, *bound becomes
 * the position after them. */
static tess_status extend_bound(tess_encoder *encoder, const tess_buffer *text, size_t end, const int32_t *ids,
                                size_t n, token_bound from, token_bound *bound, bool *same)
{
    tess_ids part = {.mem = text->mem};
    tess_status status = tess_encode(encoder, text->data + from.byte, end - from.byte, false, &part);
    *same = status == TESS_OK && part.size <= n - from.token &&
            memcmp(part.data, ids + from.token, part.size * sizeof(*ids)) == 0;
    if (*same)
        *bound = (token_bound){end, from.token + part.size};
    tess_ids_free(&part);
    return status;
}

/* Moves *bound over the next tokens if they decode to exactly the text up to byte `end`. This works where extend_bound
 * fails because the tokenizer adds something to each text, such as a space. */
static tess_status walk_bound(const tess_tokenizer *tokenizer, const tess_buffer *text, size_t end, const int32_t *ids,
                              size_t n, token_bound *bound, bool *same)
{
    TESS_AUTO(tess_buffer_free) tess_buffer before = {.mem = text->mem}, after = {.mem = text->mem};
    size_t at = bound->byte, token = bound->token, bytes = 0;
    *same = false;
    for (; token < n && at < end; at += bytes, token++)
        TESS_TRY(bytes_of(tokenizer, ids[token], &before, &bytes));
    if (at != end || bound->token == 0)
        return TESS_OK;
    before.size = 0;
    TESS_TRY(tess_decode(tokenizer, ids + bound->token - 1, 1, false, &before));
    TESS_TRY(tess_decode(tokenizer, ids + bound->token - 1, token - bound->token + 1, false, &after));
    *same = after.size == before.size + (end - bound->byte) &&
            memcmp(after.data + before.size, text->data + bound->byte, end - bound->byte) == 0;
    if (*same)
        *bound = (token_bound){end, token};
    return TESS_OK;
}

/* Moves *bound to byte `end`: first tries to start at its present position, then at the beginning of the text. */
static tess_status move_bound(const tess_tokenizer *tokenizer, tess_encoder *encoder, const tess_buffer *text,
                              size_t end, const int32_t *ids, size_t n, token_bound *bound)
{
    bool same = end == bound->byte, ahead = end > bound->byte;
    if (ahead)
        TESS_TRY(extend_bound(encoder, text, end, ids, n, *bound, bound, &same));
    if (ahead && !same)
        TESS_TRY(walk_bound(tokenizer, text, end, ids, n, bound, &same));
    if (!same)
        TESS_TRY(extend_bound(encoder, text, end, ids, n, (token_bound){0}, bound, &same));
    TESS_CHECK(same, TESS_E_UNSUPPORTED,
               "a token holds what the assistant wrote and what it did not: with this tokenizer it cannot be told "
               "which tokens to train on");
    return TESS_OK;
}

/* Marks the tokens of the spans, which are in order. Works even if tokens do not cover the text byte for byte. */
static tess_status mark_bounds(const tess_tokenizer *tokenizer, tess_encoder *encoder, const tess_buffer *text,
                               const int32_t *ids, size_t n, const tess_chat_spans *spans, char *marks)
{
    token_bound bound = {0};
    for (size_t s = 0; s < spans->n; s++) {
        TESS_TRY(move_bound(tokenizer, encoder, text, spans->item[s].begin, ids, n, &bound));
        size_t begin = bound.token, end = n;
        if (spans->item[s].end < text->size) {
            TESS_TRY(move_bound(tokenizer, encoder, text, spans->item[s].end, ids, n, &bound));
            end = bound.token;
        }
        for (size_t i = begin; i < end; i++)
            marks[i] = 1;
    }
    return TESS_OK;
}

static tess_status mark(const tess_chat *how, tess_encoder *encoder, const tess_buffer *text,
                        const tess_chat_spans *spans, const int32_t *ids, size_t n, tess_buffer *loss)
{
    TESS_AUTO(tess_mem_drop) void *places = NULL;
    bool exact;
    size_t begin = loss->size;
    static const char zeroes[256];
    for (size_t left = n; left > 0;) {
        size_t part = left < sizeof(zeroes) ? left : sizeof(zeroes);
        TESS_TRY(tess_buffer_append(loss, zeroes, part));
        left -= part;
    }
    TESS_TRY(tess_mem_alloc_array(loss->mem, TESS_POOL_MISC, n, sizeof(size_t), "places of tokens", &places));
    TESS_TRY(place_tokens(how, ids, n, text->size, places, loss->mem, &exact));
    if (!exact)
        return mark_bounds(how->tokenizer, encoder, text, ids, n, spans, loss->data + begin);
    mark_pieces(places, n, spans, loss->data + begin);
    return TESS_OK;
}

/* Appends the span of everything after the first n messages and the prompt to answer them. */
static tess_status find_completion(const tess_chat *how, const json_t *messages, size_t n, const json_t *tools,
                                   const tess_buffer *text, tess_chat_spans *spans)
{
    TESS_AUTO(tess_buffer_free) tess_buffer before = {.mem = spans->mem};
    json_auto_t *head = json_array();
    TESS_CHECK(head != NULL, TESS_E_NOMEM, "no memory for a conversation");
    for (size_t i = 0; i < n; i++)
        if (json_array_append(head, json_array_get(messages, i)) != 0)
            return TESS_FAIL(TESS_E_NOMEM, "no memory for a conversation");
    TESS_TRY(tess_conversation_write(how, head, tools, true, &before, NULL));
    bool begins = before.size <= text->size && (before.size == 0 || memcmp(text->data, before.data, before.size) == 0);
    if (!begins)
        return TESS_FAIL(TESS_E_UNSUPPORTED, "the chat template does not preserve prefixes: with its completion the "
                                             "prompt is written differently than alone");
    if (before.size < text->size)
        TESS_TRY(tess_chat_spans_add(spans, (tess_chat_span){before.size, text->size}));
    return TESS_OK;
}

/* Encodes with the template how->chat, which may have generation blocks or not. */
static tess_status encode(const tess_chat *how, tess_encoder *encoder, const json_t *messages, size_t n_prompt,
                          const json_t *tools, tess_ids *ids, tess_buffer *loss, bool *whole)
{
    TESS_AUTO(tess_buffer_free) tess_buffer text = {.mem = loss->mem};
    TESS_AUTO(tess_chat_spans_free) tess_chat_spans spans = {.mem = loss->mem};
    size_t begin = ids->size;
    if (n_prompt > 0 || tess_chat_template_marks(how->chat))
        TESS_TRY(tess_conversation_write(how, messages, tools, false, &text, n_prompt == 0 ? &spans : NULL));
    else
        TESS_TRY(tess_turns_find(how, messages, tools, &text, &spans, whole));
    if (n_prompt > 0)
        TESS_TRY(find_completion(how, messages, n_prompt, tools, &text, &spans));
    if (*whole)
        TESS_TRY(tess_encode(encoder, text.size > 0 ? text.data : "", text.size, false, ids));
    if (ids->size > begin)
        TESS_TRY(mark(how, encoder, &text, &spans, ids->data + begin, ids->size - begin, loss));
    return TESS_OK;
}

tess_status tess_conversation_encode(const tess_chat *how, tess_encoder *encoder, const json_t *messages,
                                     size_t n_prompt, const json_t *tools, tess_ids *ids, tess_buffer *loss,
                                     bool *whole)
{
    bool fits;
    size_t n_ids = ids->size, n_loss = loss->size;
    *whole = true;
    TESS_TRY(tess_conversation_check(how, messages, tools));
    TESS_TRY(tess_training_template_fits(loss->mem, how, messages, tools, &fits));
    tess_chat training = *how;
    training.chat = how->training;
    if (fits && n_prompt == 0)
        return encode(&training, encoder, messages, 0, tools, ids, loss, whole);
    tess_status status = encode(how, encoder, messages, n_prompt, tools, ids, loss, whole);
    if (status != TESS_E_UNSUPPORTED || !fits)
        return status;
    /* The prompt ends with the beginning of a thought, which the family's own template leaves out of the completion. So
     * the training template is used. */
    tess_error_clear();
    ids->size = n_ids;
    loss->size = n_loss;
    return encode(&training, encoder, messages, n_prompt, tools, ids, loss, whole);
}

/* Encodes the text that the template writes after the answer to a question. */
static tess_status find_end(const tess_chat *how, tess_encoder *encoder, const json_t *turn, const char *answer,
                            tess_buffer *text, tess_ids *ids)
{
    TESS_TRY(tess_conversation_write(how, turn, NULL, false, text, NULL));
    const char *at = text->size > 0 ? memmem(text->data, text->size, answer, strlen(answer)) : NULL;
    if (at == NULL)
        return TESS_OK;
    at += strlen(answer);
    return tess_encode(encoder, at, (size_t)(text->data + text->size - at), false, ids);
}

tess_status tess_conversation_end(const tess_chat *how, tess_encoder *encoder, tess_mem *mem, int32_t *id)
{
    static const char answer[] = "tessera";
    json_t *turn =
        json_pack("[{s:s, s:s}, {s:s, s:s}]", "role", "user", "content", "x", "role", "assistant", "content", answer);
    tess_buffer text = {.mem = mem};
    tess_ids ids = {.mem = mem};
    *id = -1;
    tess_status status = turn != NULL ? find_end(how, encoder, turn, answer, &text, &ids)
                                      : TESS_FAIL(TESS_E_NOMEM, "no memory for a message");
    for (size_t i = 0; i < ids.size && *id < 0; i++)
        if (tess_tokenizer_is_special(how->tokenizer, ids.data[i]))
            *id = ids.data[i];
    json_decref(turn);
    tess_ids_free(&ids);
    tess_buffer_free(&text);
    if (status == TESS_OK || status == TESS_E_NOMEM)
        return status;
    tess_error_clear(); /* the template refuses such a conversation */
    return TESS_OK;
}
