/* Characters that Unicode has added between version 14, which Debian 12's PCRE2 knows, and version 16, which Hugging
 * Face's tokenizers know: a character that was a letter when a tokenizer was trained must also be a letter here.
 * Source: Unicode Character Database, DerivedGeneralCategory; tools/make_unicode_added.py. */
#ifndef TESS_DATA_TOKENIZER_UNICODE_ADDED_H
#define TESS_DATA_TOKENIZER_UNICODE_ADDED_H

#include "base/text/text.h"

/* Returns the general category of an added character ("Lo"); NULL: the character was not added. */
const char *tess_unicode_added_category(uint32_t code_point);
/* Appends the added characters with a property of a regex, a general category ("L", "Nd") or a script ("Han"), as the
 * inside of a character class. Appends nothing for other properties. */
tess_status tess_unicode_added_ranges(const char *property, size_t n, tess_buffer *out);

#endif
