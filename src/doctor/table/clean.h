/* Text from outside, made fit for a terminal and for JSON. */
#ifndef TESS_DOCTOR_TABLE_CLEAN_H
#define TESS_DOCTOR_TABLE_CLEAN_H

#include <stddef.h>

/* text[0..size) as UTF-8 without control characters: other bytes become '?', tabs a space. Ends with "..." where `out`
 * (of at least 8 bytes) is too small. Returns out. */
const char *tess_clean(const char *text, size_t size, char *out, size_t out_size);
/* The same of a text that ends at a NUL, or after `most` bytes of memory that others write. */
const char *tess_clean_text(const char *text, size_t most, char *out, size_t out_size);

#endif
