/* Text that grows in a buffer and is cut at the buffer's end, lists of ranks, and sentences with fields. */
#ifndef TESS_DIAGNOSIS_SENTENCE_H
#define TESS_DIAGNOSIS_SENTENCE_H

#include <stdbool.h>
#include <stddef.h>

/* Part of the guard's error for operations that differ only in their call sites (job/fingerprint.h). The diagnosis
 * searches errors for it. */
#define TESS_ERROR_BY_PLACE " in their order, which all have kept before"

typedef struct tess_sentence {
    char *text; /* always NUL-terminated */
    size_t size, at;
} tess_sentence;

tess_sentence tess_sentence_begin(char *text, size_t size); /* returns an empty text; size at least 1 */
void tess_sentence_add(tess_sentence *words, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Appends "rank 3", "ranks 0 1 3", "ranks 0-6", or for many ranks "ranks 0-3 5 7 and 12 more". `ranks` must ascend. */
void tess_sentence_ranks(tess_sentence *words, const int *ranks, int n);

/* Appends a process to the command that continues stopped processes, called rank by rank: "kill -CONT 12 13"; with
 * hosts "on host h1 kill -CONT 12 13, on host h2 kill -CONT 14". `host`: "" in a job of one host. *last: NULL before
 * the first call. A pid of 0 is left out. */
void tess_sentence_continue(tess_sentence *words, int pid, const char *host, const char **last);

/* The fields of a sentence. A field has a name, the number of things that it stands for, and a text. */
enum { TESS_FIELDS = 32 };

typedef struct tess_fields {
    struct {
        const char *name;
        int n;
        char text[512];
    } list[TESS_FIELDS];
    int n;
} tess_fields;

/* Adds an empty field and returns its text for the caller to write. A field beyond TESS_FIELDS replaces the last
 * one. */
tess_sentence tess_fields_add(tess_fields *fields, const char *name, int n);
void tess_fields_put(tess_fields *fields, const char *name, int n, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Appends `sentence` with its fields, in the language of forms (base/report/form.h). "{who}" is the text of that field,
 * and "n_who" the number of things that it stands for: "{n_who:is|are}". Unknown fields are empty. */
void tess_sentence_fill(tess_sentence *words, const char *sentence, const tess_fields *fields);

/* Sentences of the watchdog and of `doctor log`. The table in sentences.c defines them and names their fields. */
typedef enum tess_report_id {
    TESS_REPORT_NONE,
    TESS_REPORT_STALL,
    TESS_REPORT_DIFFERENT,
    TESS_REPORT_SAME_PLACE,
    TESS_REPORT_OTHER_PLACE,
    TESS_REPORT_DISTANCE,
    TESS_REPORT_STANDSTILL,
    TESS_REPORT_GROUPS,
    TESS_REPORT_APART,
    TESS_REPORT_NO_MEMBERS,
    TESS_REPORT_ALL_WAITED,
    TESS_REPORT_ALL_SEEN_WAITED,
    TESS_REPORT_ONE_MORE,
    TESS_REPORT_NEVER_JOINED,
    TESS_REPORT_SOMEBODY_MISSING,
    TESS_REPORT_NO_TIMEOUT_OF,
    TESS_REPORT_CUT,
    TESS_REPORT_EFFECT,
    TESS_REPORT_EXIT,
    TESS_REPORT_PROGRESS,
    TESS_REPORT_NOTIFIED,
    TESS_REPORT_NO_TIMEOUT,
    TESS_REPORT_NO_LINE,
    TESS_REPORT_BEHIND,
    TESS_REPORT_COUNT
} tess_report_id;

void tess_sentence_report(tess_sentence *words, tess_report_id id, const tess_fields *fields);

#endif
