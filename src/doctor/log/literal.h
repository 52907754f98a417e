/* The word that every text which a pattern matches must contain: what makes thousands of lines a millisecond possible.
 */
#ifndef TESS_DOCTOR_LOG_LITERAL_H
#define TESS_DOCTOR_LOG_LITERAL_H

#include <stddef.h>

enum { TESS_LITERAL_LEAST = 4, TESS_LITERAL_MOST = 64 };

/* Writes the longest run of plain characters of a PCRE2 pattern that stand outside of groups and classes, are not
 * optional and in no alternative, in lower case; at most TESS_LITERAL_MOST. Returns its length; 0: there is none of
 * TESS_LITERAL_LEAST. */
size_t tess_pattern_literal(const char *pattern, size_t size, char out[TESS_LITERAL_MOST]);

#endif
