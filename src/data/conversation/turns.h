/* Finds which part of a conversation's text the assistant wrote, for templates without generation blocks. */
#ifndef TESS_DATA_CONVERSATION_TURNS_H
#define TESS_DATA_CONVERSATION_TURNS_H

#include "data/conversation/conversation_text.h"

/* Appends the text of a conversation to `text`. Appends to `spans` what the template adds for each message of the
 * assistant: the text that follows the earlier messages and the prompt to answer them.
 *
 * *same: false if the template writes a message differently once others follow. `spans` must not be used then.
 * TESS_E_UNSUPPORTED: an answer does not follow the prompt to answer, or finding the turns would take too long. Also
 * the errors of tess_conversation_write.
 *
 * If the template is a loop over the messages, the time is linear in the text: only a few messages are then rendered.
 * The parts of the others must begin and end in the same way and contain the texts of their messages. */
tess_status tess_turns_find(const tess_chat *how, const json_t *messages, const json_t *tools, tess_buffer *text,
                            tess_chat_spans *spans, bool *same);

#endif
