/* Unicode for tokenizers: repair of invalid UTF-8, character classes, GPT-2's map of bytes to characters. */
#ifndef TESS_DATA_TOKENIZER_UNICODE_H
#define TESS_DATA_TOKENIZER_UNICODE_H

#include "base/text/text.h"

/* Whether the character has White_Space in the Unicode database: the meaning of `\s` in the regexes of
 * tokenizer.json. */
bool tess_is_space(uint32_t code_point);
/* Whether the character is in `\w`: letters, marks, decimal and letter numbers, connectors, join controls. */
bool tess_is_word(uint32_t code_point);

/* Whether the character is in `\p{N}`: decimal digits, letter numbers such as U+2167, and others such as U+00BD. */
bool tess_is_number(uint32_t code_point);

/* Returns the number of bytes of the first character of valid UTF-8. */
static inline int tess_utf8_length(char lead)
{
    unsigned char c = (unsigned char)lead;
    return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

/* Returns the start of the character that text[at] lies in; `at` if that is the end of the valid UTF-8. */
static inline size_t tess_utf8_begin(const char *text, size_t size, size_t at)
{
    while (at > 0 && at < size && ((unsigned char)text[at] & 0xc0) == 0x80)
        at--;
    return at;
}

/* Returns the number of valid bytes at the start of `text`; `size` if all are valid. */
size_t tess_utf8_valid(const char *text, size_t size);

/* Appends `text` with U+FFFD in place of each maximal subpart that is not UTF-8 (Unicode 15, section 3.9, table 3-8),
 * as Python's errors="replace" and WHATWG's decoder do. */
tess_status tess_utf8_repair(const char *text, size_t size, tess_buffer *out);

/* Returns the character of GPT-2's alphabet for a byte: printable Latin-1 bytes stand for themselves, the other 68 for
 * U+0100 + n in ascending order. */
uint32_t tess_byte_to_char(uint8_t byte);
/* Returns the byte for a character of the alphabet; -1: it is not in the alphabet. */
int tess_char_to_byte(uint32_t code_point);
/* Appends the bytes that `text` spells in the alphabet. *all: false (and nothing is appended) if a character is not in
 * it. */
tess_status tess_bytes_from_alphabet(const char *text, size_t size, tess_buffer *out, bool *all);

#endif
