/* Conversations as tokens: written by the model's chat template, tokenized as one text (the template itself writes what
 * begins and ends it), with a mask of what the assistant wrote.
 *
 * Where the template has `{% generation %}` blocks, a token counts if it holds a byte of one, as with transformers'
 * apply_chat_template(return_assistant_tokens_mask=True). Where it has none, the assistant's part of a turn is what the
 * template adds to the conversation before it, with the prompt to answer, to get the conversation up to it; a template
 * that writes a turn otherwise once others follow is refused, as that part is not what a model would have written. */
#ifndef TESS_DATA_CONVERSATION_CONVERSATION_H
#define TESS_DATA_CONVERSATION_CONVERSATION_H

#include "data/template/chat_template.h"
#include "data/tokenizer/tokenizer.h"

/* How conversations are written; all borrowed. */
typedef struct tess_chat {
    const tess_chat_template *chat;
    const tess_tokenizer *tokenizer;
    const json_t *variables; /* of the template, beside the conversation; NULL: none */
    int64_t now_s;           /* see tess_chat_input */
} tess_chat;

/* Appends the ids of a conversation to `ids`, and to `loss` a byte for each: 1: the assistant wrote it; with n_prompt
 * above 0: it is behind the first n_prompt messages and the prompt to answer them. `messages` is a list, `tools` too,
 * or NULL. TESS_E_FORMAT: messages are not a list of objects. TESS_E_INVALID: the template refuses
 * the conversation. TESS_E_UNSUPPORTED: what the assistant wrote cannot be told. */
tess_status tess_conversation_encode(const tess_chat *how, tess_encoder *encoder, const json_t *messages,
                                     size_t n_prompt, const json_t *tools, tess_ids *ids, tess_buffer *loss);

/* Appends the text of a conversation to `text`; prompts: up to where the assistant's answer begins. A template does not
 * see members of messages that are null (an OpenAI call of a tool has "content": null). */
tess_status tess_conversation_write(const tess_chat *how, const json_t *messages, const json_t *tools, bool prompts,
                                    tess_buffer *text, tess_chat_spans *spans);

#endif
