/* Simulated jobs of many steps: the slow rank is named in time and with its phase, and no other rank ever. */
#include <math.h>

#include "base/core/rng.h"
#include "support/test.h"
#include "diagnosis/pace.h"

enum { MOST_RANKS = 64 };

/* A job with realistic times of phases, and noise; one rank may be slow, or starved of its core. */
typedef struct job {
    int n_ranks;
    double noise; /* standard deviation of a phase, as a share of its length */
    int slow_rank, slow_phase;
    double slow;    /* 0.1: 10% longer */
    double starved; /* share of its own work that is spent waiting for a core */
    int64_t from;   /* first such step */
    double all_starved;
    tess_pace_counters counters[MOST_RANKS];
    uint64_t seed;
} job;

static const double usual_s[TESS_PHASE_COUNT] = {
    [TESS_PHASE_OTHER] = 1e-3,     [TESS_PHASE_DATA] = 2e-3,      [TESS_PHASE_GATHER] = 4e-3,
    [TESS_PHASE_FORWARD] = 30e-3,  [TESS_PHASE_BACKWARD] = 60e-3, [TESS_PHASE_REDUCE] = 5e-3,
    [TESS_PHASE_OPTIMIZER] = 6e-3, [TESS_PHASE_WAIT] = 3e-3};

static double normal(job *j, uint64_t a, uint64_t b)
{
    double sum = 0;
    for (uint64_t i = 0; i < 12; i++)
        sum += (double)(tess_rng_u64(j->seed, 1, a, 16 * b + i) >> 11) * 0x1p-53;
    return sum - 6;
}

/* Time that the others wait for the slow rank in a step. */
static double delay_of(const job *j)
{
    double own = 0;
    for (int phase = 0; phase < TESS_PHASE_COUNT; phase++)
        own +=
            phase == TESS_PHASE_GATHER || phase == TESS_PHASE_REDUCE || phase == TESS_PHASE_WAIT ? 0 : usual_s[phase];
    return usual_s[j->slow_phase] * j->slow + own * j->starved;
}

static void play_step(job *j, int64_t step)
{
    for (int r = 0; r < j->n_ranks; r++) {
        double starved = j->all_starved;
        tess_pace_counters *c = &j->counters[r];
        for (int phase = 0; phase < TESS_PHASE_COUNT; phase++) {
            double s = usual_s[phase] * (1 + j->noise * normal(j, (uint64_t)step, (uint64_t)(r * 8 + phase)));
            bool waits = phase == TESS_PHASE_GATHER || phase == TESS_PHASE_REDUCE || phase == TESS_PHASE_WAIT;
            if (waits) /* it waits for the excess of the slow rank */
                s += r != j->slow_rank && step >= j->from ? delay_of(j) / 3 : 0;
            else if (r == j->slow_rank && step >= j->from && phase == j->slow_phase)
                s *= 1 + j->slow;
            double without_core = waits ? 0 : s * (starved + (r == j->slow_rank && step >= j->from ? j->starved : 0));
            c->phase_ns[phase] += (uint64_t)((s + without_core) * 1e9);
            c->starved_ns += (uint64_t)(without_core * 1e9);
        }
        c->n_steps++;
    }
}

/* Steps until a rank is named, at most n; 0: none was. */
static int64_t play(job *j, int64_t n, tess_pace_finding *finding)
{
    tess_pace *pace;
    int64_t named = 0;
    EXPECT_OK(tess_pace_create(test_mem(), j->n_ranks, &pace));
    for (int64_t step = 1; step <= n && named == 0; step++) {
        play_step(j, step);
        for (int r = 0; r < j->n_ranks; r++)
            EXPECT(tess_pace_add(pace, r, &j->counters[r]));
        EXPECT(!tess_pace_add(pace, 0, &j->counters[0]));
        if (tess_pace_find(pace, finding))
            named = step;
    }
    tess_pace_destroy(&pace);
    return named;
}

static void ten_percent_are_named_within_twenty_steps(void)
{
    static const int phases[] = {TESS_PHASE_FORWARD, TESS_PHASE_BACKWARD, TESS_PHASE_OPTIMIZER};
    int in_time = 0, n = 0;
    for (uint64_t seed = 0; seed < 30; seed++)
        for (size_t p = 0; p < sizeof(phases) / sizeof(phases[0]); p++, n++) {
            tess_pace_finding finding;
            job j = {.n_ranks = 2 + (int)(seed % 7),
                     .noise = 0.02,
                     .slow_phase = phases[p],
                     .slow = 0.10,
                     .from = 40,
                     .seed = seed};
            j.slow_rank = (int)(seed * 5 % (uint64_t)j.n_ranks);
            int64_t named = play(&j, 80, &finding);
            if (named == 0)
                continue;
            EXPECT(named > 40);
            EXPECT_INT(finding.rank, j.slow_rank);
            EXPECT_INT(finding.phase, phases[p]);
            EXPECT(!finding.starved && finding.ratio > 1.06 && finding.ratio < 1.15);
            in_time += named < 40 + 20;
        }
    EXPECT(in_time >= 0.98 * n);
}

static void healthy_ranks_are_never_named(void)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        tess_pace_finding finding;
        job j = {
            .n_ranks = 2 + (int)(seed % 15), .noise = 0.02 + 0.02 * (double)(seed % 5), .slow_rank = -1, .seed = seed};
        EXPECT_INT(play(&j, 1500 / (j.n_ranks), &finding), 0);
    }
}

/* Slow by the clock, but the system counts that its threads waited for a core. */
static void a_rank_without_a_core_is_told_apart(void)
{
    tess_pace_finding finding;
    job j = {.n_ranks = 4, .noise = 0.02, .slow_rank = 2, .starved = 0.3, .from = 30, .seed = 3};
    EXPECT(play(&j, 60, &finding) >= 30);
    EXPECT_INT(finding.rank, 2);
    EXPECT(finding.starved && finding.starved_s > 0.2 * 0.099);
}

/* Slower in one phase and faster in another: no rank waits for it. */
static void a_rank_that_holds_nobody_up_is_left_in_peace(void)
{
    tess_pace *pace;
    tess_pace_finding finding;
    tess_pace_counters counters[3] = {{.n_steps = 0}};
    EXPECT_OK(tess_pace_create(test_mem(), 3, &pace));
    for (int step = 0; step < 60; step++)
        for (int r = 0; r < 3; r++) {
            counters[r].n_steps++;
            counters[r].phase_ns[TESS_PHASE_FORWARD] += r == 1 ? 40000000 : 30000000;
            counters[r].phase_ns[TESS_PHASE_BACKWARD] += r == 1 ? 50000000 : 60000000;
            counters[r].phase_ns[TESS_PHASE_WAIT] += 1000000;
            tess_pace_add(pace, r, &counters[r]);
        }
    EXPECT(!tess_pace_find(pace, &finding));
    tess_pace_destroy(&pace);
}

static void ranks_that_all_wait_for_cores_are_not_told_of(void)
{
    tess_pace_finding finding;
    job j = {.n_ranks = 4, .noise = 0.02, .slow_rank = 2, .starved = 0.4, .all_starved = 0.8, .from = 30, .seed = 3};
    EXPECT_INT(play(&j, 200, &finding), 0);
}

static void a_slow_rank_among_many_is_named(void)
{
    tess_pace_finding finding;
    job j = {.n_ranks = MOST_RANKS,
             .noise = 0.02,
             .slow_rank = 61,
             .slow_phase = TESS_PHASE_DATA,
             .slow = 0.8,
             .from = 30,
             .seed = 9};
    int64_t named = play(&j, 60, &finding);
    EXPECT(named >= 30 && named < 50);
    EXPECT_INT(finding.rank, 61);
    EXPECT_INT(finding.phase, TESS_PHASE_DATA);
}

/* A sample may hold several steps. */
static void samples_of_several_steps_are_means(void)
{
    tess_pace *pace;
    tess_pace_finding finding;
    job j = {.n_ranks = 3, .noise = 0.02, .slow_rank = 1, .slow_phase = TESS_PHASE_FORWARD, .slow = 0.2, .from = 1};
    EXPECT_OK(tess_pace_create(test_mem(), 3, &pace));
    for (int64_t step = 1; step <= 200; step++) {
        play_step(&j, step);
        for (int r = 0; r < 3 && (step + r) % 7 == 0; r++)
            tess_pace_add(pace, r, &j.counters[r]);
        for (int r = 0; r < 3 && step % 5 == 0; r++)
            tess_pace_add(pace, r, &j.counters[r]);
    }
    EXPECT(tess_pace_find(pace, &finding));
    EXPECT_INT(finding.rank, 1);
    EXPECT_INT(finding.n_steps, 200);
    EXPECT(finding.ratio > 1.15 && finding.ratio < 1.25);
    j.counters[1].n_steps = 3; /* a rank that was started again */
    EXPECT(tess_pace_add(pace, 1, &j.counters[1]));
    EXPECT(!tess_pace_find(pace, &finding));
    tess_pace_destroy(&pace);
}

static const test_case cases[] = {
    CASE(ten_percent_are_named_within_twenty_steps),
    CASE(healthy_ranks_are_never_named),
    CASE(a_rank_without_a_core_is_told_apart),
    CASE(a_rank_that_holds_nobody_up_is_left_in_peace),
    CASE(ranks_that_all_wait_for_cores_are_not_told_of),
    CASE(a_slow_rank_among_many_is_named),
    CASE(samples_of_several_steps_are_means),
};

TEST_MAIN(cases)
