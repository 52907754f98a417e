/* Strings: edit distance, growing buffers, UTF-8, numbers for people. */
#ifndef TESS_BASE_TEXT_TEXT_H
#define TESS_BASE_TEXT_TEXT_H

#include "base/mem/scoped.h"

/* A growing byte string in memory of a pool, always NUL-terminated. Zero-initialise it, then set mem. If mem is NULL,
 * the text is cut at the `capacity` bytes of `data`, which the caller owns. */
typedef struct tess_buffer {
    tess_mem *mem;
    char *data;
    size_t size, capacity;
} tess_buffer;

/* Replaces text[at ..] by the formatted text, cut if it does not fit into `size`. Returns the new end. `at` < size. */
size_t tess_text_add(char *text, size_t size, size_t at, const char *format, ...) __attribute__((format(printf, 4, 5)));

tess_status tess_buffer_append(tess_buffer *buffer, const void *data, size_t size);
tess_status tess_buffer_printf(tess_buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tess_buffer_free(tess_buffer *buffer);

bool tess_text_ends_with(const char *text, const char *ending);

/* The place of a word in a text. TESS_WORD_IN is any place, and TESS_WORD_IS means the whole text.
 * TESS_WORD_CASELESS is added where upper and lower case are the same; the words are then in lower case. */
enum { TESS_WORD_IN, TESS_WORD_BEGINS, TESS_WORD_ENDS, TESS_WORD_IS, TESS_WORD_CASELESS };
/* Whether one of the words, "denied|refused", is in the text. */
bool tess_text_has(const char *text, size_t size, int where, const char *words);

/* Returns the edit distance (restricted Damerau-Levenshtein) of the first 63 characters. */
int tess_text_distance(const char *a, const char *b);

/* Decodes one code point at s[0..n). Returns its number of bytes; 0: the bytes are not valid UTF-8 (overlong,
 * surrogate, cut). */
int tess_utf8_decode(const uint8_t *s, size_t n, uint32_t *code_point);
int tess_utf8_encode(uint32_t code_point, uint8_t out[4]);
/* Returns the number of characters in n bytes of UTF-8. */
int tess_utf8_count(const char *text, size_t n);

/* All return text.
 *   tess_format_bytes:   "1.5 GiB", "312 B"
 *   tess_format_count:   "12.3 M"
 *   tess_format_grouped: "-1,234,567" */
const char *tess_format_bytes(double bytes, char *text, size_t size);
const char *tess_format_count(double count, char *text, size_t size);
const char *tess_format_grouped(int64_t n, char *text, size_t size);

#endif
