/* Text that grows at its end and is cut where its buffer ends; lists of ranks; sentences with fields. */
#ifndef TESS_DIAGNOSIS_SENTENCE_H
#define TESS_DIAGNOSIS_SENTENCE_H

#include <stdbool.h>
#include <stddef.h>

/* What the guard says, in the error that it gives to ranks, of operations that differ in nothing but the place that
 * they are called from (job/fingerprint.h); a verdict finds it there. */
#define TESS_WORDS_BY_PLACE " in their order, which all have kept before"

typedef struct tess_sentence {
    char *text; /* always NUL-terminated */
    size_t size, at;
} tess_sentence;

tess_sentence tess_sentence_begin(char *text, size_t size); /* an empty text; size at least 1 */
void tess_sentence_add(tess_sentence *words, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "rank 3", "ranks 0 1 3", "ranks 0-6", of many "ranks 0-3 5 7 and 12 more". `ranks` ascending. */
void tess_sentence_ranks(tess_sentence *words, const int *ranks, int n);

/* What a sentence can name: each field with its text, and how many things that is. */
enum { TESS_FIELDS = 32 };

typedef struct tess_fields {
    struct {
        const char *name;
        int n;
        char text[512];
    } list[TESS_FIELDS];
    int n;
} tess_fields;

/* One more field, empty: its text goes to what is returned. At most TESS_FIELDS; what is beyond takes the last place.
 */
tess_sentence tess_fields_add(tess_fields *fields, const char *name, int n);
void tess_fields_put(tess_fields *fields, const char *name, int n, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Adds `sentence`, in which "{who}" stands for the text of that field, "{who:one|more}" for a word that goes with one
 * or with more of it, and "[...]" is left out when a field in it is empty. Fields that are not there are empty. */
void tess_words_fill(tess_sentence *words, const char *sentence, const tess_fields *fields);

#endif
