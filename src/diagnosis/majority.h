/* Finds the largest group of ranks that agree. Pure function. */
#ifndef TESS_DIAGNOSIS_MAJORITY_H
#define TESS_DIAGNOSIS_MAJORITY_H

#include <stdbool.h>

/* Whether items a and b are equal. alike(a, a) says whether anything is known of a. */
typedef bool tess_alike(const void *context, int a, int b);

typedef struct tess_majority {
    int first; /* first member of the largest group; -1: nothing is known */
    int n;     /* number of its members */
    bool tie;  /* another group is as large */
} tess_majority;

/* Partitions n items into groups of equal items, and finds the largest. Only the first 256 groups are compared. */
tess_majority tess_majority_find(tess_alike *alike, const void *context, int n);

#endif
