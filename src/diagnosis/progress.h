/* Ranks at different places of one program: one has had a batch less, or more, than the others. */
#ifndef TESS_DIAGNOSIS_PROGRESS_H
#define TESS_DIAGNOSIS_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The place of a rank. */
typedef struct tess_progress_of {
    int64_t step;  /* under way; -1: not known, and the rank is left out */
    int64_t micro; /* micro-batches of it begun, -1: not known */
    bool ended;    /* it has left the job */
} tess_progress_of;

/* How ranks that wait for each other differ, as a sentence: "rank 2 is at step 11, the others at step 12: it has had
 * one batch less: ...". The majority is right. Without a majority the sentence lists the places and blames no rank. odd
 * (n): the ranks elsewhere, all false without a majority. False, and text "": all known ranks are at one place. */
bool tess_progress_mismatch(const tess_progress_of *ranks, int n, bool *odd, char *text, size_t size);

/* Whether some of n_ranks ranks are behind, by how far each came: came (n_known), 0: not known; the others are not
 * known. *most is the farthest. True if those below it are fewer than those at it, or as many and all known: where only
 * some ranks report, the rest is not behind. */
bool tess_progress_behind(const int64_t *came, int n_known, int n_ranks, int64_t *most);

#endif
