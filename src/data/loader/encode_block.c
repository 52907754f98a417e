#include "data/loader/encode_block.h"

#include <stdio.h>
#include <string.h>

static tess_status encode_conversation(const tess_chat *chat, tess_encoder *encoder, const tess_document *document,
                                       tess_token_block *out)
{
    TESS_CHECK(chat != NULL, TESS_E_UNSUPPORTED,
               "a conversation, but there is no chat template: name one, or a model's folder that has one, with "
               "data.chat_template (eval, tokenize: --chat-template)");
    return tess_conversation_encode(chat, encoder, document->messages, document->n_prompt, document->tools, &out->ids,
                                    &out->loss);
}

static tess_status encode_document(const tess_text_rules *rules, tess_encoder *encoder, const tess_document *document,
                                   tess_document_kind kind, tess_token_block *out)
{
    size_t start = out->ids.size;
    if (kind == TESS_DOCUMENT_CONVERSATION) {
        TESS_TRY(encode_conversation(rules->chat, encoder, document, out));
        return tess_token_block_end(out, start, kind);
    }
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
    tess_document document;
    TESS_TRY(tess_document_parse(line, size, &rules->keys, &document));
    if (document.line == NULL)
        return TESS_OK;
    tess_document_kind kind = document.text == NULL     ? TESS_DOCUMENT_CONVERSATION
                              : document.prompt != NULL ? TESS_DOCUMENT_PAIR
                                                        : TESS_DOCUMENT_LINE;
    tess_status status = encode_document(rules, encoder, &document, kind, out);
    const char *mask = out->mask[0] == '\0' ? tess_document_mask(&document, &rules->keys) : NULL;
    if (mask != NULL)
        snprintf(out->mask, sizeof(out->mask), "%s", mask);
    tess_document_free(&document);
    return status;
}

tess_status tess_encode_block(const tess_text_rules *rules, tess_encoder *encoder, bool jsonl, const tess_buffer *text,
                              tess_token_block *out, size_t *line_at)
{
    const tess_document all = {.text = text->data != NULL ? text->data : "", .size = text->size};
    tess_token_block_clear(out);
    *line_at = 0;
    if (!jsonl)
        return encode_document(rules, encoder, &all, TESS_DOCUMENT_TEXT, out);
    for (size_t size; *line_at < text->size; *line_at += size + 1) {
        const char *line = text->data + *line_at, *end = memchr(line, '\n', text->size - *line_at);
        size = end != NULL ? (size_t)(end - line) : text->size - *line_at;
        TESS_TRY(encode_line(rules, encoder, line, size, out));
    }
    return TESS_OK;
}
