/* Measures time on a noisy machine. The sides of a comparison run in turn, so that a slow moment affects all of
 * them. Results are medians of the ratios within a round. */
#ifndef TESS_BENCH_RACE_H
#define TESS_BENCH_RACE_H

#include "bench/samples.h"
#include "tessera/types.h"

enum { TESS_BENCH_MAX_SIDES = 6, TESS_BENCH_MAX_ROUNDS = 100 };

typedef struct tess_bench_side {
    tess_status (*run)(void *self); /* runs the side once */
    void *self;
} tess_bench_side;

/* A clock for work that runs on a device. */
typedef struct tess_bench_clock {
    tess_status (*begin)(void *self);
    tess_status (*end)(void *self, double *seconds); /* waits for all work since the beginning, and returns its time */
    void *self;
} tess_bench_clock;

typedef struct tess_bench_race {
    int n_sides; /* side 0 is our own */
    tess_bench_side side[TESS_BENCH_MAX_SIDES];
    const tess_bench_clock *clock; /* NULL: the host's clock */
    /* Measures the machine's limit in units per second (flops, bytes), in every round. `cold`: it is measured before
     * every side, which evicts the caches, and a side runs only once. */
    double (*measure_limit)(const void *self, int limit);
    const void *limit_self;
    int limit;
    bool cold;
    int rounds; /* most rounds; fewer if they would take longer than budget_s, but at least 1 */
    double budget_s;

    /* Results of the rounds 0 .. n_rounds-1. */
    int n_rounds;
    double seconds[TESS_BENCH_MAX_SIDES][TESS_BENCH_MAX_ROUNDS]; /* seconds of one run */
    double limits[TESS_BENCH_MAX_ROUNDS];
} tess_bench_race;

/* Runs the race. Short runs are measured in batches of 2 ms. */
tess_status tess_bench_race_run(tess_bench_race *race);

/* Returns the median share of the limit that side 0 reaches, if a run is `units` of work. */
double tess_bench_race_share(const tess_bench_race *race, double units);

#endif
