/* Finds which part of a conversation's text the assistant wrote, for templates without generation blocks. */
#ifndef TESS_DATA_CONVERSATION_TURNS_H
#define TESS_DATA_CONVERSATION_TURNS_H

#include "data/conversation/conversation_text.h"

/* Appends the text of a conversation to `text`, and to `spans` what the template adds for each message of the
 * assistant. That is what follows the messages before it and the prompt to answer them.
 *
 * *same: false if the template writes a message differently once others follow. `spans` is then of no use.
 * TESS_E_UNSUPPORTED: an answer does not follow its prompt to answer, or finding the turns would take too long; also
 * the errors of tess_conversation_write.
 *
 * Time is linear in the text where the template is a loop over the messages: it is then rendered for a few of them
 * alone, and the parts of the others must begin and end alike and show their messages. */
tess_status tess_turns_find(const tess_chat *how, const json_t *messages, const json_t *tools, tess_buffer *text,
                            tess_chat_spans *spans, bool *same);

#endif
