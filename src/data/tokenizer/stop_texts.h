/* Texts that end what a model writes. */
#ifndef TESS_DATA_TOKENIZER_STOP_TEXTS_H
#define TESS_DATA_TOKENIZER_STOP_TEXTS_H

#include "data/tokenizer/tokenizer.h"

/* Whether the newest of n tokens completes one of the texts, and may go on after it. The text must begin in the tokens
 * from number `first` on: those before were not written by the model in this turn. The names of special tokens count
 * as text.
 *
 * stops  NULL-terminated, none of them empty. Without any nothing is decoded.
 * ids    (n), of which only the last ones are decoded: it is called for every new token, and none before has
 *        completed a text.
 * Errors: TESS_E_NOMEM. */
tess_status tess_stop_texts_end(const tess_tokenizer *tokenizer, const char *const *stops, const int32_t *ids, size_t n,
                                size_t first, tess_mem *mem, bool *ends);

#endif
