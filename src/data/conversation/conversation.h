/* Conversations as tokens: written by the model's chat template, tokenized as one text (the template itself writes what
 * begins and ends it), with a mask of what the assistant wrote.
 *
 * Where the template has `{% generation %}` blocks, a token counts if it holds a byte of one, as with transformers'
 * apply_chat_template(return_assistant_tokens_mask=True). Where it has none, the assistant's part of a turn is what the
 * template adds to the conversation before it, with the prompt to answer, to get the conversation up to it. */
#ifndef TESS_DATA_CONVERSATION_CONVERSATION_H
#define TESS_DATA_CONVERSATION_CONVERSATION_H

#include "data/conversation/conversation_text.h"

/* Appends the ids of a conversation to `ids`, and to `loss` a byte for each: 1: the assistant wrote it; with n_prompt
 * above 0: it is after the first n_prompt messages and the prompt to answer them. `messages` is a list, `tools` too,
 * or NULL.
 *
 * *whole: false if the template writes a turn differently once others follow. Nothing is appended then: what a model
 * sees of earlier turns depends on which turn it answers, so each turn is a text of its own (n_prompt is its number).
 *
 * TESS_E_UNSUPPORTED: it is not known what the assistant wrote. Also the errors of tess_conversation_write. */
tess_status tess_conversation_encode(const tess_chat *how, tess_encoder *encoder, const json_t *messages,
                                     size_t n_prompt, const json_t *tools, tess_ids *ids, tess_buffer *loss,
                                     bool *whole);

/* Finds the special token with which the template ends an answer. *id is -1 if it writes none after a plain answer, or
 * refuses one. TESS_E_NOMEM. */
tess_status tess_conversation_end(const tess_chat *how, tess_encoder *encoder, tess_mem *mem, int32_t *id);

#endif
