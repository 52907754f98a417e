#include "bench/race.h"

#include <math.h>
#include <time.h>

#include "base/os/os.h"

static const double BATCH_S = 2e-3, PAUSE_S = 2e-3;

static tess_status time_batch(const tess_bench_race *race, int i_side, int64_t n, double *seconds)
{
    const tess_bench_side *side = &race->side[i_side];
    const tess_bench_clock *clock = race->clock;
    if (clock != NULL)
        TESS_TRY(clock->begin(clock->self));
    double begin = tess_os_now_s();
    for (int64_t i = 0; i < n; i++)
        TESS_TRY(side->run(side->self));
    *seconds = tess_os_now_s() - begin;
    if (clock != NULL)
        TESS_TRY(clock->end(clock->self, seconds));
    *seconds /= (double)n;
    return TESS_OK;
}

/* Runs each side once, to choose the size of its batches. *round_s: time of a round. */
static tess_status warm_up(tess_bench_race *race, int64_t *batch, double *round_s)
{
    *round_s = 0;
    for (int i = 0; i < race->n_sides; i++) {
        double seconds;
        TESS_TRY(time_batch(race, i, 1, &seconds));
        if (seconds < BATCH_S) /* the first run also paid for pages and threads */
            TESS_TRY(time_batch(race, i, 1, &seconds));
        batch[i] = race->cold || seconds > BATCH_S ? 1 : (int64_t)ceil(BATCH_S / fmax(seconds, 1e-8));
        *round_s += seconds * (double)batch[i];
    }
    return TESS_OK;
}

static tess_status run_round(tess_bench_race *race, const int64_t *batch, int round)
{
    for (int i = 0; i < race->n_sides; i++) {
        if (race->n_sides > 1) /* threads of another library may still spin after its turn */
            nanosleep(&(struct timespec){.tv_nsec = (long)(PAUSE_S * 1e9)}, NULL);
        double limit = race->cold || i == 0 ? race->measure_limit(race->limit_self, race->limit) : NAN;
        if (i == 0)
            race->limits[round] = limit;
        TESS_TRY(time_batch(race, i, batch[i], &race->seconds[i][round]));
    }
    return TESS_OK;
}

tess_status tess_bench_race_run(tess_bench_race *race)
{
    int64_t batch[TESS_BENCH_MAX_SIDES];
    double round_s;
    TESS_TRY(warm_up(race, batch, &round_s));
    int rounds = race->rounds < TESS_BENCH_MAX_ROUNDS ? race->rounds : TESS_BENCH_MAX_ROUNDS;
    if (round_s * rounds > race->budget_s)
        rounds = (int)fmax(1, race->budget_s / round_s);
    for (race->n_rounds = 0; race->n_rounds < rounds; race->n_rounds++)
        TESS_TRY(run_round(race, batch, race->n_rounds));
    return TESS_OK;
}

double tess_bench_race_share(const tess_bench_race *race, double units)
{
    double rates[TESS_BENCH_MAX_ROUNDS];
    for (int r = 0; r < race->n_rounds; r++)
        rates[r] = units / race->seconds[0][r];
    return tess_bench_median_ratio(rates, race->limits, race->n_rounds);
}
