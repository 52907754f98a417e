#include "data/loader/encode_block.h"

#include <stdio.h>
#include <string.h>

#include "data/files/text_kind.h"

/* Limit for all turns of one conversation together, since each repeats the turns before it */
enum { TURN_TOKENS = 1 << 26 };

/* Writes each turn of the assistant as a document, after the text that the model sees when it answers. */
static tess_status encode_turns(const tess_chat *chat, tess_encoder *encoder, const tess_document *document,
                                tess_token_block *out)
{
    tess_chat own = *chat; /* a copy without the training template, which does not fit this conversation */
    json_auto_t *head = json_array();
    json_t *message;
    size_t i, first = out->ids.size;
    own.training = NULL;
    json_array_foreach (document->messages, i, message) {
        bool whole, turn = strcmp(json_string_value(json_object_get(message, "role")), "assistant") == 0;
        size_t start = out->ids.size;
        TESS_CHECK(json_array_append(head, message) == 0, TESS_E_NOMEM, "no memory for a conversation");
        if (!turn)
            continue;
        TESS_TRY(tess_conversation_encode(&own, encoder, head, i, document->tools, &out->ids, &out->loss, &whole));
        TESS_TRY(tess_token_block_end(out, start, TESS_DOCUMENT_CONVERSATION));
        TESS_CHECK(out->ids.size - first <= TURN_TOKENS, TESS_E_UNSUPPORTED,
                   "a conversation of %zu messages becomes more than %d Mi tokens, as the chat template writes a turn "
                   "differently once others follow; use one with {%% generation %%} blocks",
                   json_array_size(document->messages), TURN_TOKENS >> 20);
    }
    return TESS_OK;
}

static tess_status encode_conversation(const tess_chat *chat, tess_encoder *encoder, const tess_document *document,
                                       tess_token_block *out)
{
    size_t start = out->ids.size;
    bool whole;
    TESS_TRY(tess_conversation_encode(chat, encoder, document->messages, document->n_prompt, document->tools, &out->ids,
                                      &out->loss, &whole));
    if (whole)
        return tess_token_block_end(out, start, TESS_DOCUMENT_CONVERSATION);
    out->by_turns = true;
    return encode_turns(chat, encoder, document, out);
}

static tess_status encode_document(const tess_text_rules *rules, tess_encoder *encoder, const tess_document *document,
                                   tess_document_kind kind, tess_token_block *out)
{
    size_t start = out->ids.size;
    if (kind == TESS_DOCUMENT_CONVERSATION)
        return encode_conversation(rules->chat, encoder, document, out);
    if (kind == TESS_DOCUMENT_PAIR) {
        TESS_TRY(tess_encode(encoder, document->prompt, document->prompt_size, false, &out->ids));
        TESS_TRY(tess_token_block_mark(out, false));
    }
    TESS_TRY(tess_encode(encoder, document->text, document->size, false, &out->ids));
    TESS_TRY(tess_token_block_mark(out, true));
    return tess_token_block_end(out, start, kind);
}

static tess_status encode_line(const tess_text_rules *rules, tess_encoder *encoder, const char *line, size_t size,
                               tess_token_block *out)
{
    TESS_AUTO(tess_document_free) tess_document document = {0};
    TESS_TRY(tess_document_parse(line, size, &rules->keys, &document));
    if (document.line == NULL)
        return TESS_OK;
    tess_document_kind kind = document.text == NULL     ? TESS_DOCUMENT_CONVERSATION
                              : document.prompt != NULL ? TESS_DOCUMENT_PAIR
                                                        : TESS_DOCUMENT_LINE;
    TESS_TRY(encode_document(rules, encoder, &document, kind, out));
    const char *mask = out->mask[0] == '\0' ? tess_document_mask(&document, &rules->keys) : NULL;
    if (mask != NULL)
        snprintf(out->mask, sizeof(out->mask), "%s", mask);
    return TESS_OK;
}

static tess_status encode_plain(const tess_text_rules *rules, tess_encoder *encoder, const tess_document *all,
                                tess_token_block *out, size_t *bad_at)
{
    TESS_TRY(tess_text_check(all->text, all->size, bad_at));
    return encode_document(rules, encoder, all, TESS_DOCUMENT_TEXT, out);
}

tess_status tess_encode_block(const tess_text_rules *rules, tess_encoder *encoder, tess_text_kind kind,
                              const tess_buffer *text, tess_token_block *out, size_t *bad_at)
{
    const tess_document all = {.text = text->data != NULL ? text->data : "", .size = text->size};
    tess_records records = tess_records_of(kind, all.text, all.size);
    bool there = false;
    tess_token_block_clear(out);
    if (kind == TESS_TEXT_PLAIN)
        return encode_plain(rules, encoder, &all, out, bad_at);
    do {
        tess_status status = tess_records_next(&records, &there);
        *bad_at = records.begin;
        TESS_TRY(status);
        if (there)
            TESS_TRY(encode_line(rules, encoder, all.text + records.begin, records.length, out));
    } while (there);
    return TESS_OK;
}
