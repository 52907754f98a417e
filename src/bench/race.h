/* Timing on a noisy machine: the sides of a comparison run in turns, so that a slow moment hits all of them, and
 * results are medians of ratios within a round. */
#ifndef TESS_BENCH_RACE_H
#define TESS_BENCH_RACE_H

#include "bench/samples.h"
#include "tessera/types.h"

enum { TESS_BENCH_MAX_SIDES = 6, TESS_BENCH_MAX_ROUNDS = 100 };

typedef struct tess_bench_side {
    tess_status (*run)(void *self); /* once */
    void *self;
} tess_bench_side;

/* Times what runs somewhere else. */
typedef struct tess_bench_clock {
    tess_status (*begin)(void *self);
    tess_status (*end)(void *self, double *seconds); /* waits for what ran since */
    void *self;
} tess_bench_clock;

typedef struct tess_bench_race {
    int n_sides; /* side 0 is ours */
    tess_bench_side side[TESS_BENCH_MAX_SIDES];
    const tess_bench_clock *clock; /* NULL: the host's */
    /* The machine's limit in units a second (flops, bytes), measured in every round. `cold`: measured before every
     * side, which evicts the caches, and a side runs once. */
    double (*measure_limit)(const void *self, int limit);
    const void *limit_self;
    int limit;
    bool cold;
    int rounds; /* at most; fewer when they would take longer than budget_s, at least 1 */
    double budget_s;

    /* Results of rounds 0 .. n_rounds-1. */
    int n_rounds;
    double seconds[TESS_BENCH_MAX_SIDES][TESS_BENCH_MAX_ROUNDS]; /* seconds of one run */
    double limits[TESS_BENCH_MAX_ROUNDS];
} tess_bench_race;

/* Runs the race. Times short runs in batches of 2 ms. */
tess_status tess_bench_race_run(tess_bench_race *race);

/* The median part of the limit that side 0 reaches when a run is `units` of work. */
double tess_bench_race_share(const tess_bench_race *race, double units);

#endif
