/* Text that grows at its end and is cut where its buffer ends; lists of ranks. */
#ifndef TESS_VERDICT_WORDS_H
#define TESS_VERDICT_WORDS_H

#include <stddef.h>

/* What the guard says, in the error that it gives to ranks, of operations that differ in nothing but the place that
 * they are called from (job/fingerprint.h); a verdict finds it there. */
#define TESS_WORDS_BY_PLACE " in their order, which all have kept before"

typedef struct tess_words {
    char *text; /* always NUL-terminated */
    size_t size, at;
} tess_words;

tess_words tess_words_begin(char *text, size_t size); /* an empty text; size at least 1 */
void tess_words_add(tess_words *words, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "rank 3", "ranks 0 1 3", "ranks 0-6", of many "ranks 0-3 5 7 and 12 more". `ranks` ascending. */
void tess_words_ranks(tess_words *words, const int *ranks, int n);

#endif
