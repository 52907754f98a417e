/* Writes conversations as text, with the model's chat template and the special tokens of its tokenizer. */
#ifndef TESS_DATA_CONVERSATION_CONVERSATION_TEXT_H
#define TESS_DATA_CONVERSATION_CONVERSATION_TEXT_H

#include "data/template/chat_template.h"
#include "data/tokenizer/tokenizer.h"

enum { TESS_CHAT_PROBLEM_SIZE = 600 };

/* The rules for writing conversations. */
typedef struct tess_chat {
    const tess_chat_template *chat; /* borrowed; NULL: there is none */
    /* borrowed; the training template that is used where it fits (training_template.h), or NULL */
    const tess_chat_template *training;
    const tess_tokenizer *tokenizer; /* borrowed */
    int64_t now_s;                   /* time for the template: see tess_chat_input */
    bool as_shipped;                 /* sets the template's variable `as_shipped` */
    /* Why the model's template cannot be used; "": it can be used, or there is none */
    char problem[TESS_CHAT_PROBLEM_SIZE];
} tess_chat;

/* Checks that there is a usable template, and that it can write the given conversation. `how` NULL: there is no
 * template. Returns the errors of tess_conversation_write except TESS_E_INVALID. */
tess_status tess_conversation_check(const tess_chat *how, const json_t *messages, const json_t *tools);

/* Appends the text of a conversation to `text`. `messages` is a list; `tools` is a list or NULL. `prompts`: the text
 * ends where the assistant's answer begins. `spans` may be NULL. The template does not see members of messages that are
 * null (an OpenAI tool call has "content": null). It sees a thought that is named reasoning_content, thinking or
 * reasoning under the first two of these names.
 *
 * TESS_E_FORMAT: messages are not a list of objects.
 * TESS_E_INVALID: the template refuses the conversation.
 * TESS_E_UNSUPPORTED: there is no template, or it cannot be used. */
tess_status tess_conversation_write(const tess_chat *how, const json_t *messages, const json_t *tools, bool prompts,
                                    tess_buffer *text, tess_chat_spans *spans);
/* Like tess_conversation_write, but sets `turns` (one per message) as tess_chat_template_render_turns does. */
tess_status tess_conversation_write_turns(const tess_chat *how, const json_t *messages, const json_t *tools,
                                          tess_buffer *text, tess_chat_span *turns);

/* Returns a hash of the template; 0: there is none. `how` may be NULL. */
uint64_t tess_chat_hash(const tess_chat *how);

#endif
