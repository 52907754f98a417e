/* The tokens that begin and end a text, for a model and its tokenizer. */
#ifndef TESS_TRAIN_TEXT_TEXT_ENDS_H
#define TESS_TRAIN_TEXT_TEXT_ENDS_H

#include "config/config.h"
#include "data/tokenizer/tokenizer.h"
#include "nn/model.h"

/* The token that ends a text: the tokenizer's eos_token, or else the first of config.json. If config.json
 * leaves it to the family's default, that must be a special token. -1: there is none, or the tokenizer does not have
 * it. */
int32_t tess_model_end_of_text(const tess_model_config *config, const tess_tokenizer *tokenizer);

/* The tokens that begin a text, the same in training, validation, evaluation and generation: those of the tokenizer's
 * template, or none (FALSE). TRUE: where the template has none, the bos_token_id of config.json; TESS_E_INVALID: it is
 * no special token.
 */
tess_status tess_model_begin_of_text(const tess_model_config *config, const tess_tokenizer *tokenizer, tess_add_bos add,
                                     tess_prefix *bos);

#endif
