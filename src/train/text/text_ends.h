/* Chooses the tokens that begin and end a text, for a model and its tokenizer. */
#ifndef TESS_TRAIN_TEXT_TEXT_ENDS_H
#define TESS_TRAIN_TEXT_TEXT_ENDS_H

#include "config/config.h"
#include "data/tokenizer/tokenizer.h"
#include "nn/model.h"

/* Returns the token that ends a text: the tokenizer's eos_token, or else the first one of config.json. If
 * config.json leaves it to the default of the model's family, it must be a special token. -1: there is none, or the
 * tokenizer does not have it. */
int32_t tess_model_end_of_text(const tess_model_config *config, const tess_tokenizer *tokenizer);

/* Finds the tokens that begin a text. Training, validation, evaluation and generation use the same ones.
 * - TESS_ADD_BOS_AUTO: those of the tokenizer's template.
 * - TESS_ADD_BOS_FALSE: none.
 * - TESS_ADD_BOS_TRUE: those of the template, or else the bos_token_id of config.json.
 * Returns TESS_E_INVALID if that id is not a special token. */
tess_status tess_model_begin_of_text(const tess_model_config *config, const tess_tokenizer *tokenizer, tess_add_bos add,
                                     tess_prefix *bos);

#endif
