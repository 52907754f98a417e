/* The regexes of tokenizer.json, on PCRE2 with its JIT.
 *
 * The files are written for Oniguruma (Ruby syntax). A pattern is rewritten where the two would differ on text: \s, \w
 * and \h become explicit sets (PCRE2 counts U+180E as a space and leaves marks out of \w), ^ and $ match at lines. What
 * cannot be rewritten is TESS_E_UNSUPPORTED. */
#ifndef TESS_DATA_TOKENIZER_REGEX_H
#define TESS_DATA_TOKENIZER_REGEX_H

#include "tessera/memory.h"

typedef struct tess_regex tess_regex;
typedef struct tess_regex_scratch tess_regex_scratch; /* scratch of one thread */

/* `what` names the place in messages. */
tess_status tess_regex_create(tess_mem *mem, const char *pattern, size_t size, const char *what, tess_regex **regex);
void tess_regex_destroy(tess_regex **regex);

tess_status tess_regex_scratch_create(tess_mem *mem, tess_regex_scratch **scratch);
void tess_regex_scratch_destroy(tess_regex_scratch **scratch);

/* The first non-empty match in text[from..size), which must be valid UTF-8. *found is false when there is none. A
 * pattern that needs too many steps is TESS_E_INVALID. */
tess_status tess_regex_find(const tess_regex *regex, tess_regex_scratch *scratch, const char *text, size_t size,
                            size_t from, bool *found, size_t *begin, size_t *end);

#endif
