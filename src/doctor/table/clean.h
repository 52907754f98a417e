/* Makes text from outside fit for a terminal and for JSON. */
#ifndef TESS_DOCTOR_TABLE_CLEAN_H
#define TESS_DOCTOR_TABLE_CLEAN_H

#include <jansson.h>
#include <stddef.h>

/* Copies text[0..size) as UTF-8 without control characters: a tab becomes a space, another bad byte '?'. If `out` (at
 * least 8 bytes) is too small, the copy ends with "...". Returns out. */
const char *tess_clean(const char *text, size_t size, char *out, size_t out_size);
/* The same for a text that ends at a NUL or after `most` bytes; other processes may write to it. */
const char *tess_clean_text(const char *text, size_t most, char *out, size_t out_size);
/* The clean text as a JSON string of at most TESS_TABLE_MOST_TEXT bytes. */
json_t *tess_clean_json(const char *text);
/* The same as a member of an object; NULL and "" stay away. */
void tess_clean_put(json_t *object, const char *key, const char *text);

#endif
