/* Turns conversations into tokens. The model's chat template writes a conversation as one text (including what begins
 * and ends it), which is then tokenized. A mask says which tokens the assistant wrote.
 *
 * If the template has `{% generation %}` blocks, a token counts if it contains a byte of a block, as in transformers'
 * apply_chat_template(return_assistant_tokens_mask=True). Otherwise the assistant's part of a turn is found by
 * comparing two renderings: the conversation before the turn with the prompt to answer, and the conversation up to the
 * turn. The part is what the second has in addition. */
#ifndef TESS_DATA_CONVERSATION_CONVERSATION_H
#define TESS_DATA_CONVERSATION_CONVERSATION_H

#include "data/conversation/conversation_text.h"

/* Appends the ids of a conversation to `ids`, and a byte for each of them to `loss`. The byte is 1 if the assistant
 * wrote the token. If n_prompt is above 0, it is 1 for all tokens after the first n_prompt messages and the prompt to
 * answer them. `messages` is a list; `tools` is a list or NULL.
 *
 * *whole: false if the template writes a turn differently once other turns follow. Nothing is appended then. What a
 * model sees of earlier turns then depends on which turn it answers, so each turn must become a text of its own
 * (n_prompt is its number).
 *
 * TESS_E_UNSUPPORTED: it is not known what the assistant wrote. Also the errors of tess_conversation_write. */
tess_status tess_conversation_encode(const tess_chat *how, tess_encoder *encoder, const json_t *messages,
                                     size_t n_prompt, const json_t *tools, tess_ids *ids, tess_buffer *loss,
                                     bool *whole);

/* Finds the special token with which the template ends an answer. *id is -1 if the template writes none after a plain
 * answer, or refuses a plain conversation. TESS_E_NOMEM. */
tess_status tess_conversation_end(const tess_chat *how, tess_encoder *encoder, tess_mem *mem, int32_t *id);

#endif
