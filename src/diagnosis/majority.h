/* The majority of ranks that differ. Pure. */
#ifndef TESS_DIAGNOSIS_MAJORITY_H
#define TESS_DIAGNOSIS_MAJORITY_H

#include <stdbool.h>

/* Whether a and b are alike; alike(a, a): whether anything is known of a. */
typedef bool tess_alike(const void *context, int a, int b);

typedef struct tess_majority {
    int first; /* first member of the largest camp; -1: nothing is known */
    int n;     /* its members */
    bool tie;  /* another camp is as large */
} tess_majority;

/* Partitions n items into camps that are alike, and finds the largest. Only the first 256 camps are compared. */
tess_majority tess_majority_find(tess_alike *alike, const void *context, int n);

#endif
