/* Recognises the stop texts, which end what a model writes. */
#ifndef TESS_DATA_TOKENIZER_STOP_TEXTS_H
#define TESS_DATA_TOKENIZER_STOP_TEXTS_H

#include "data/tokenizer/tokenizer.h"

/* Checks whether the newest of n tokens completes one of the texts; more text may follow it in the token. The stop text
 * must begin in token number `first` or later: the model did not write earlier tokens in this turn. The names of
 * special tokens count as text.
 *
 *   stops  NULL-terminated, none of them empty. If there are none, nothing is decoded.
 *   ids    (n) all tokens. Only the last ones are decoded: the function must be called for every new token, until a
 *          text is complete.
 * Errors: TESS_E_NOMEM. */
tess_status tess_stop_texts_end(const tess_tokenizer *tokenizer, const char *const *stops, const int32_t *ids, size_t n,
                                size_t first, tess_mem *mem, bool *ends);

#endif
