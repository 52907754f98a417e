/* Ranks that are not at the same place of the same program: one has had a batch less, or more, than the others. */
#ifndef TESS_DIAGNOSIS_PROGRESS_H
#define TESS_DIAGNOSIS_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How far a rank is. */
typedef struct tess_progress_of {
    int64_t step;  /* under way; -1: not known, and the rank is left out */
    int64_t micro; /* micro-batches of it begun, -1: not known */
    bool ended;    /* it has left: no more steps come */
} tess_progress_of;

/* Why ranks that wait for each other differ, as a sentence: "rank 2 is at step 11, the others at step 12: it has
 * had one batch less: ...". Judged by majority: most common step, then the most common micro-batch of it; ranks that
 * are where most are and those that are not known are well. False, and text "": all are at one place. With no majority
 * the sentence says who is where and blames nobody. odd (n): who is elsewhere than most; all false without a majority.
 */
bool tess_progress_mismatch(const tess_progress_of *ranks, int n, bool *odd, char *text, size_t size);

/* Whether some of n_ranks ranks are behind, by how far each came: came (n_known), 0: not known; the others are not
 * known. *most is the farthest. True if those below it are fewer than those at it, or as many and all known: where only
 * some ranks report, the rest is not behind. */
bool tess_progress_behind(const int64_t *came, int n_known, int n_ranks, int64_t *most);

#endif
