/* Who is waited for, from who waits for whom at one moment of a job that runs. A rank that waits itself is explained by
 * whom it waits for: only the ends of such chains count. Pure functions. */
#ifndef TESS_DIAGNOSIS_MISSED_H
#define TESS_DIAGNOSIS_MISSED_H

#include <stdbool.h>
#include <stdint.h>

typedef struct tess_wait {
    uint64_t since_ns;       /* 0: the rank waits for nobody */
    const uint64_t *missing; /* bit r: for rank r */
} tess_wait;

typedef struct tess_missed {
    int rank;
    int waiter;        /* who waits longest for it, -1: the job has not begun without it */
    uint64_t since_ns; /* and since when */
    int n_waiting;     /* how many wait for it themselves */
} tess_missed;

/* All who are waited for, ascending, to out (n_ranks), of waits (n_ranks). Returns how many. */
int tess_missed_find(const tess_wait *waits, int n_ranks, tess_missed *out);
/* Moves those that wait for nobody themselves to the front. Returns how many. */
int tess_missed_ends(const tess_wait *waits, tess_missed *missed, int n);
/* The one that most wait for, the first of them: it stands for a circle. -1: n is 0. */
int tess_missed_most(const tess_missed *missed, int n);
/* How many ranks wait for `rank`, themselves or through others. reached (n_ranks): scratch. */
int tess_missed_count(const tess_wait *waits, int n_ranks, int rank, bool *reached);

#endif
