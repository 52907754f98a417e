/* Finds ranks at different places of the same program, because one had a batch less or more than the others. */
#ifndef TESS_DIAGNOSIS_PROGRESS_H
#define TESS_DIAGNOSIS_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The place of a rank. */
typedef struct tess_progress_of {
    int64_t step;  /* current step; -1: not known, and the rank is left out */
    int64_t micro; /* number of micro-batches of that step that have begun; -1: not known */
    bool ended;    /* it has left the job */
} tess_progress_of;

/* Writes a sentence on how ranks that wait for each other differ: "rank 2 is at step 11, the others at step 12: it
 * has had one batch less: ...". The majority is right. Without a majority, the sentence lists the places and blames
 * no rank. odd (n): the ranks that are elsewhere; all false without a majority. Returns false, with the text "", if
 * all known ranks are at the same place. */
bool tess_progress_mismatch(const tess_progress_of *ranks, int n, bool *odd, char *text, size_t size);

/* Whether some of n_ranks ranks are behind. came (n_known): how far each rank came; 0: not known. Ranks beyond
 * n_known are not known. *most: how far the farthest rank came. Ranks below it are behind only if they are fewer
 * than those at it, or equally many and all known. So if only some ranks report, the others do not count as behind. */
bool tess_progress_behind(const int64_t *came, int n_known, int n_ranks, int64_t *most);

#endif
