/* Follows chains of ranks that wait for others, at one moment of a running job. Only the ends of chains are to
 * blame. Pure functions. */
#ifndef TESS_DIAGNOSIS_MISSED_H
#define TESS_DIAGNOSIS_MISSED_H

#include <stdbool.h>
#include <stdint.h>

typedef struct tess_wait {
    uint64_t since_ns;       /* begin of the wait; 0: the rank does not wait */
    const uint64_t *missing; /* bit r: it waits for rank r */
} tess_wait;

/* A rank that others wait for. */
typedef struct tess_missed {
    int rank;
    int waiter;        /* rank that has waited longest for it; -1: the job has not begun because of it */
    uint64_t since_ns; /* begin of that wait */
    int n_waiting;     /* number of ranks that wait for it directly */
} tess_missed;

/* Writes the ranks to blame to out (n_ranks), in ascending order: the ends of chains, which others wait for and
 * which wait for none. If there are only circles, writes one rank: the one with most waiters. waits (n_ranks).
 * Returns the number of ranks written; 0: no rank waits. */
int tess_missed_find(const tess_wait *waits, int n_ranks, tess_missed *out);
/* Returns the index of the rank with most waiters; -1: n is 0. */
int tess_missed_most(const tess_missed *missed, int n);
/* Returns the number of ranks that wait for `rank`, directly or through others. reached (n_ranks): scratch. */
int tess_missed_count(const tess_wait *waits, int n_ranks, int rank, bool *reached);

#endif
