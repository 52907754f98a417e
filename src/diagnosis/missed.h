/* Chains of ranks that wait for others at one moment of a running job. Only the ends of chains matter. Pure functions.
 */
#ifndef TESS_DIAGNOSIS_MISSED_H
#define TESS_DIAGNOSIS_MISSED_H

#include <stdbool.h>
#include <stdint.h>

typedef struct tess_wait {
    uint64_t since_ns;       /* 0: the rank waits for nobody */
    const uint64_t *missing; /* bit r: for rank r */
} tess_wait;

/* A rank that others wait for. */
typedef struct tess_missed {
    int rank;
    int waiter;        /* the rank that waits longest for it; -1: the job has not begun without it */
    uint64_t since_ns; /* time since which it waits */
    int n_waiting;     /* ranks that wait for it directly */
} tess_missed;

/* Writes the ranks to blame, ascending, to out (n_ranks): those that are waited for and wait for nobody, the ends of
 * chains. If there are none, one rank stands for a circle: the one with most waiters. waits (n_ranks). Returns their
 * number; 0: nobody waits. */
int tess_missed_find(const tess_wait *waits, int n_ranks, tess_missed *out);
/* Index of the one with most waiters; -1: n is 0. */
int tess_missed_most(const tess_missed *missed, int n);
/* Number of ranks that wait for `rank`, directly or through others. reached (n_ranks): scratch. */
int tess_missed_count(const tess_wait *waits, int n_ranks, int rank, bool *reached);

#endif
