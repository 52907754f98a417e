/* Conversations as text: written by the model's chat template, with the special tokens of its tokenizer. */
#ifndef TESS_DATA_CONVERSATION_CONVERSATION_TEXT_H
#define TESS_DATA_CONVERSATION_CONVERSATION_TEXT_H

#include "data/template/chat_template.h"
#include "data/tokenizer/tokenizer.h"

enum { TESS_CHAT_PROBLEM_SIZE = 600 };

/* How conversations are written. */
typedef struct tess_chat {
    const tess_chat_template *chat;     /* borrowed; NULL: there is none */
    const tess_chat_template *training; /* borrowed; what trains instead where it fits (training_template.h), or NULL */
    const tess_tokenizer *tokenizer;    /* borrowed */
    int64_t now_s;                      /* see tess_chat_input */
    bool as_shipped;                    /* the template sees a variable of this name */
    char problem[TESS_CHAT_PROBLEM_SIZE]; /* why the model's template cannot be used; "": it can, or there is none */
} tess_chat;

/* Checks that there is a template that can be used, and what it is to write. `how` may be NULL: there is none. The
 * errors are those of tess_conversation_write but for TESS_E_INVALID. */
tess_status tess_conversation_check(const tess_chat *how, const json_t *messages, const json_t *tools);

/* Appends the text of a conversation to `text`. `messages` is a list, `tools` too, or NULL. prompts: the text ends
 * where the assistant's answer begins. `spans` may be NULL. A template does not see members of messages that are null
 * (an OpenAI call of a tool has "content": null). It sees a thought named reasoning_content, thinking or reasoning
 * under the first two names.
 *
 * TESS_E_FORMAT: messages are not a list of objects.
 * TESS_E_INVALID: the template refuses the conversation.
 * TESS_E_UNSUPPORTED: there is no template, or it cannot be used. */
tess_status tess_conversation_write(const tess_chat *how, const json_t *messages, const json_t *tools, bool prompts,
                                    tess_buffer *text, tess_chat_spans *spans);
/* Likewise, with turns (one a message) as in tess_chat_template_render_turns. */
tess_status tess_conversation_write_turns(const tess_chat *how, const json_t *messages, const json_t *tools,
                                          tess_buffer *text, tess_chat_span *turns);

/* A hash of the template; 0: there is none. `how` may be NULL. */
uint64_t tess_chat_hash(const tess_chat *how);

#endif
