/* Makes text from outside fit for a terminal and for JSON. */
#ifndef TESS_DOCTOR_TABLE_CLEAN_H
#define TESS_DOCTOR_TABLE_CLEAN_H

#include <jansson.h>

#include "base/text/text.h"

/* Copies text[0..size) as UTF-8 without control characters: a tab becomes a space, another bad byte '?'. If `out` (at
 * least 8 bytes) is too small, the copy ends with "...". Returns out. */
const char *tess_clean(const char *text, size_t size, char *out, size_t out_size);
/* The same for a text that ends at a NUL or after `most` bytes; other processes may write to it. */
const char *tess_clean_text(const char *text, size_t most, char *out, size_t out_size);
/* The same in place, of a text of at most 1023 bytes; `size` at least 8. */
void tess_clean_in_place(char *text, size_t size);
/* The clean text as a JSON string of at most TESS_TABLE_MOST_TEXT bytes. */
json_t *tess_clean_json(const char *text);
/* The same as a member of an object; NULL and "" stay away. */
void tess_clean_put(json_t *object, const char *key, const char *text);

/* Appends the words of `text` in lines of at most 120 columns, where words allow it. The first word goes to `column`,
 * after what the line holds already; further lines are indented by `indent`. Ends with a newline. */
tess_status tess_wrap(tess_buffer *out, size_t column, size_t indent, const char *text);

#endif
