/* Training templates: templates with generation blocks for families of models whose own template writes a turn
 * differently once others follow. They are the .jinja files in the folder `training`. With the variable `as_shipped`
 * each writes what the family's own template writes; that is how a family is recognised. */
#ifndef TESS_DATA_CONVERSATION_TRAINING_TEMPLATE_H
#define TESS_DATA_CONVERSATION_TRAINING_TEMPLATE_H

#include "data/conversation/conversation_text.h"

/* Finds the training template for the family of how->chat. *name is the name of the family. *training is NULL if none
 * is known, or if how->chat has generation blocks. TESS_E_NOMEM. */
tess_status tess_training_template_find(tess_mem *mem, const tess_chat *how, tess_chat_template **training,
                                        const char **name);

/* Checks whether how->training can be used for this conversation: with `as_shipped` it must write what how->chat
 * writes. */
tess_status tess_training_template_fits(tess_mem *mem, const tess_chat *how, const json_t *messages,
                                        const json_t *tools, bool *fits);

#endif
