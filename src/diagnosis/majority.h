/* The majority of ranks that differ. Pure. */
#ifndef TESS_DIAGNOSIS_MAJORITY_H
#define TESS_DIAGNOSIS_MAJORITY_H

#include <stdbool.h>

/* Whether a and b are alike; alike(a, a): whether anything is known of a. */
typedef bool tess_alike(const void *context, int a, int b);

typedef struct tess_majority {
    int first; /* of the largest camp; -1: nothing is known of any */
    int n;     /* in it */
    bool tie;  /* another camp is as large */
} tess_majority;

/* Of n. Compares at most 256 camps. */
tess_majority tess_majority_find(tess_alike *alike, const void *context, int n);

#endif
