/* What an operation is for, in 8 bytes that travel with it and can be read again without a table: a word of up to eight
 * letters and a number, such as "layers 12". Longer words are cut; case is not kept. */
#ifndef TESS_TRACE_LABEL_H
#define TESS_TRACE_LABEL_H

#include "tessera/types.h"

enum { TESS_LABEL_LETTERS = 8, TESS_LABEL_MOST = 65534 };

/* `number` is 0 .. TESS_LABEL_MOST (larger ones count from 0 again), -1: none. NULL or "" gives 0, which says nothing.
 */
uint64_t tess_label(const char *word, int64_t number);

/* "layers 12", "" for 0; returns text. */
const char *tess_label_text(uint64_t label, char *text, size_t size);

#endif
