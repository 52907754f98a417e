/* What most do, where they do different things. Pure. */
#ifndef TESS_DIAGNOSIS_MAJORITY_H
#define TESS_DIAGNOSIS_MAJORITY_H

#include <stdbool.h>

/* Whether a and b do the same; of one with itself: whether it is known what it does. */
typedef bool tess_alike(const void *context, int a, int b);

typedef struct tess_majority {
    int first; /* of the largest camp, -1: nobody is known */
    int n;     /* in it */
    bool tie;  /* another camp is as large */
} tess_majority;

/* Of n. Of very many camps, some. */
tess_majority tess_majority_find(tess_alike *alike, const void *context, int n);

#endif
