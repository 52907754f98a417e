/* Makes text from files and other processes safe to print on a terminal and to write as JSON. */
#ifndef TESS_DOCTOR_TABLE_CLEAN_H
#define TESS_DOCTOR_TABLE_CLEAN_H

#include <jansson.h>

#include "base/text/text.h"

/* Copies text[0..size) as UTF-8 without control characters: a tab becomes a space, any other bad byte '?'. If `out`
 * (at least 8 bytes) is too small, the copy ends with "...". Returns out. */
const char *tess_clean(const char *text, size_t size, char *out, size_t out_size);
/* Does the same for a text that ends at a NUL or after `most` bytes. Other processes may write to the text
 * meanwhile. */
const char *tess_clean_text(const char *text, size_t most, char *out, size_t out_size);
/* Cleans a text of at most 1023 bytes in place. `size` is at least 8. */
void tess_clean_in_place(char *text, size_t size);
/* Returns the clean text as a JSON string of at most TESS_TABLE_MOST_TEXT bytes. */
json_t *tess_clean_json(const char *text);
/* Adds the clean text as a member of an object. Adds nothing if the text is NULL or "". */
void tess_clean_put(json_t *object, const char *key, const char *text);

#endif
