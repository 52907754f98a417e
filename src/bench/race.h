/* Timing that stands noise: what is compared runs in turns, so that a slow moment hits all sides, and only medians of
 * ratios within one round are believed. */
#ifndef TESS_BENCH_RACE_H
#define TESS_BENCH_RACE_H

#include "bench/samples.h"
#include "tessera/types.h"

enum { TESS_BENCH_MAX_SIDES = 6, TESS_BENCH_MAX_ROUNDS = 100 };

typedef struct tess_bench_side {
    tess_status (*run)(void *self); /* once */
    void *self;
} tess_bench_side;

typedef struct tess_bench_race {
    int n_sides; /* side 0 is ours */
    tess_bench_side side[TESS_BENCH_MAX_SIDES];
    /* The machine's limit, measured in every round: units a second (flops, bytes). `cold`: right before every side,
     * because measuring it evicts the caches, and a side runs once and not warmed up. */
    double (*limit)(void *self);
    void *limit_self;
    bool cold;
    int rounds; /* wanted; fewer when they would take longer than budget_s, at least 1 */
    double budget_s;

    /* Results of rounds 0 .. n_rounds-1. */
    int n_rounds;
    double seconds[TESS_BENCH_MAX_SIDES][TESS_BENCH_MAX_ROUNDS]; /* of one run */
    double limits[TESS_BENCH_MAX_ROUNDS];
} tess_bench_race;

/* Runs it. Short runs are timed in batches of 2 ms. */
tess_status tess_bench_race_run(tess_bench_race *race);

double tess_bench_race_median_s(const tess_bench_race *race, int side);
/* How much faster than `side` ours is: the median of seconds of `side` over seconds of ours, round by round. */
double tess_bench_race_ratio(const tess_bench_race *race, int side);
/* What part of the limit ours reaches when a run is `units` of work. */
double tess_bench_race_share(const tess_bench_race *race, double units);

#endif
