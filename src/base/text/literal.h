/* Finds a word that every match of a pattern contains. Searching for the word first makes it possible to read
 * thousands of lines per millisecond. */
#ifndef TESS_BASE_TEXT_LITERAL_H
#define TESS_BASE_TEXT_LITERAL_H

#include <stddef.h>

enum { TESS_LITERAL_LEAST = 4, TESS_LITERAL_MOST = 64 };

/* Writes the longest run of plain characters of a PCRE2 pattern, in lower case. The characters are not optional, and
 * outside of groups, classes and alternatives. Returns the length: 0, or TESS_LITERAL_LEAST to TESS_LITERAL_MOST. */
size_t tess_pattern_literal(const char *pattern, size_t size, char out[TESS_LITERAL_MOST]);

#endif
