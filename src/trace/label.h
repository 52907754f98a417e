/* A label states the purpose of an operation in 8 bytes. It is sent along with the operation and can be decoded
 * without a table. It consists of a word of up to nine letters and a number, such as "embedding 0". Of a longer
 * word, the first eight letters and a '~' are kept; upper case becomes lower case. */
#ifndef TESS_TRACE_LABEL_H
#define TESS_TRACE_LABEL_H

#include "tessera/types.h"

enum { TESS_LABEL_LETTERS = 9, TESS_LABEL_MOST = 65534 };

/* Returns the label. `number` is 0 .. TESS_LABEL_MOST, or -1 for none; larger numbers start from 0 again. For NULL
 * or "", returns 0: no label. */
uint64_t tess_label(const char *word, int64_t number);

/* Formats "layers 12", "checkpoi~", or "" for 0. Returns text. */
const char *tess_label_text(uint64_t label, char *text, size_t size);

#endif
