/* The purpose of an operation in 8 bytes that travel with it and can be decoded without a table: a word of up to nine
 * letters and a number, such as "embedding 0". A longer word keeps eight letters and a '~'; case is lost. */
#ifndef TESS_TRACE_LABEL_H
#define TESS_TRACE_LABEL_H

#include "tessera/types.h"

enum { TESS_LABEL_LETTERS = 9, TESS_LABEL_MOST = 65534 };

/* `number` is 0 .. TESS_LABEL_MOST (larger ones count from 0 again), -1: none. NULL or "" gives 0: no label. */
uint64_t tess_label(const char *word, int64_t number);

/* "layers 12", "checkpoi~", "" for 0; returns text. */
const char *tess_label_text(uint64_t label, char *text, size_t size);

#endif
