/* Waits for late members of collectives, counted by hand. */
#include <math.h>

#include "base/mem/scoped.h"
#include "support/test.h"
#include "diagnosis/play.h"
#include "diagnosis/waits.h"

enum { STEPS = TESS_STRAGGLER_STEPS };

static void who_comes_last_is_who_was_waited_for(void)
{
    play *p = play_create(1, 3, 1);
    int world = play_add_team(p, "world", (int[]){0, 1, 2}, 3);
    for (int i = 0; i < 10; i++) {
        for (int r = 0; r < 3; r++) {
            play_call call = play_make(world, TESS_TRACE_BARRIER, 0, "", -1, i, "forward", 0x100);
            call.pause_ns = (r == 1 ? 30 : 10) * play_ms;
            play_add_call(p, r, &call);
        }
    }
    play_run(p, 1 << 20);
    tess_history *history = play_history(p, 0, false, 0);
    tess_waits waits;
    EXPECT_OK(tess_waits_find(history, &waits));
    EXPECT_INT(waits.n_collectives, 10);
    for (int r = 0; r < 3; r++)
        for (int c = 0; c < 3; c++) {
            uint64_t ms = waits.ns[r * 3 + c] / play_ms;
            if (r != 1 && c == 1 ? ms < 199 || ms > 201 : ms > 0)
                test_fail(__FILE__, __LINE__, "rank %d waited %d ms for rank %d", r, (int)ms, c);
        }
    tess_mem_drop(&waits.ns);
    tess_history_destroy(&history);
    free(p);
}

static void add_phase(tess_history *history, int rank, const char *phase, int64_t step, uint64_t ms)
{
    tess_phase_span span = {.begin_ns = ms * play_ms, .step = step, .detail = -1};
    snprintf(span.phase, sizeof(span.phase), "%s", phase);
    EXPECT_OK(tess_history_add_span(history, rank, &span));
}

/* Both take 100 ms a step; rank 0 waits for 20 ms of it. */
static void waiting_is_no_work(void)
{
    tess_history *history;
    double seconds[2 * STEPS];
    EXPECT_OK(tess_history_create(test_mem(), TESS_HISTORY_RINGS, 2, &history));
    for (int step = 0; step < STEPS + 1; step++) {
        for (int r = 0; r < 2; r++) {
            uint64_t begin = 1000 + (uint64_t)step * 200;
            tess_record record = {.op = TESS_TRACE_BARRIER,
                                  .enqueued_ns = (begin + 50) * play_ms,
                                  .started_ns = (begin + (r == 0 ? 70 : 50)) * play_ms};
            add_phase(history, r, "forward", step, begin);
            add_phase(history, r, "optimizer", step, begin + 100);
            EXPECT_OK(tess_history_add_record(history, r, &record));
        }
    }
    EXPECT(tess_phase_seconds(history, "forward", seconds));
    for (int i = 0; i < STEPS; i++) {
        EXPECT(fabs(seconds[i] - 0.08) < 1e-9);
        EXPECT(fabs(seconds[STEPS + i] - 0.1) < 1e-9);
    }
    EXPECT(!tess_phase_seconds(history, "checkpoint", seconds));
    tess_history_destroy(&history);
}

/* Both work for 100 ms a step; rank 1 takes 200 ms, half of it without a core. */
static void time_without_a_core_is_no_work(void)
{
    tess_history *history;
    double seconds[2 * STEPS];
    EXPECT_OK(tess_history_create(test_mem(), TESS_HISTORY_RINGS, 2, &history));
    for (int step = 0; step < STEPS + 2; step++)
        for (int r = 0; r < 2; r++) {
            uint64_t takes = r == 0 ? 100 : 200, begin = 1000 + (uint64_t)step * takes;
            tess_phase_span span = {.begin_ns = begin * play_ms, .step = step, .detail = -1, .phase = "forward"};
            span.starved_ns = r == 0 ? 0 : (7 + (uint64_t)step * 100) * play_ms;
            EXPECT_OK(tess_history_add_span(history, r, &span));
        }
    EXPECT(tess_phase_seconds(history, "forward", seconds));
    for (int i = 0; i < 2 * STEPS; i++)
        EXPECT(fabs(seconds[i] - 0.1) < 1e-9);
    tess_history_destroy(&history);
}

/* ---- Stragglers against noise --------------------------------------------------------------------------------------
 */
static uint64_t state = 1;

static double uniform(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) * 0x1p-53;
}

static double normal(void)
{
    return sqrt(-2 * log(1 - uniform())) * cos(6.283185307179586 * uniform());
}

/* Noise of 1 to 5%, and 5% of steps that take up to three times as long. */
static void simulate(double *seconds, int n_ranks, int slow, double slowdown)
{
    double noise = 0.01 + 0.04 * uniform(), base = 0.001 + uniform();
    for (int r = 0; r < n_ranks; r++) {
        for (int i = 0; i < STEPS; i++) {
            double t = base * (1 + noise * normal()) * (r == slow ? 1 + slowdown : 1);
            seconds[r * STEPS + i] = uniform() < 0.05 ? t * (1 + 2 * uniform()) : t;
        }
    }
}

static void stragglers_are_found_in_noise(void)
{
    static const int worlds[] = {2, 3, 4, 8, 16};
    double seconds[16 * STEPS];
    tess_straggler found[16];
    int n_right = 0, n_wrong = 0, n_missed = 0;
    for (int i = 0; i < 2000; i++) {
        int world = worlds[i % 5], slow = i % 2 == 0 ? (int)(uniform() * world) : -1;
        simulate(seconds, world, slow, 0.1 + 0.3 * uniform());
        int n = tess_stragglers_find(seconds, world, found);
        bool right = false;
        for (int k = 0; k < n; k++) {
            right |= found[k].rank == slow;
            n_wrong += found[k].rank != slow;
        }
        n_right += right;
        n_missed += slow >= 0 && !right;
    }
    double precision = (double)n_right / (n_right + n_wrong), recall = (double)n_right / (n_right + n_missed);
    printf("precision %.4f, recall %.4f\n", precision, recall);
    EXPECT(precision >= 0.95 && recall >= 0.95);
}

/* The limit itself, 10% over all steps, counts. */
static void ten_percent_are_enough(void)
{
    double seconds[8 * STEPS];
    tess_straggler found[8];
    int n_right = 0;
    for (int i = 0; i < 1000; i++) {
        simulate(seconds, 8, i % 8, 0.1);
        int n = tess_stragglers_find(seconds, 8, found);
        n_right += n == 1 && found[0].rank == i % 8 && found[0].ratio > 1.05 && found[0].ratio < 1.16;
    }
    printf("%d of 1000\n", n_right);
    EXPECT(n_right >= 950);
}

/* A rank that was slow for twelve steps of twenty and no longer is, is no straggler. */
static void what_passes_is_not_named(void)
{
    double seconds[4 * STEPS];
    tess_straggler found[4];
    for (int r = 0; r < 4; r++)
        for (int i = 0; i < STEPS; i++)
            seconds[r * STEPS + i] = r == 2 && i < 12 ? 1.3 : 1.0;
    EXPECT_INT(tess_stragglers_find(seconds, 4, found), 0);
    EXPECT_INT(tess_stragglers_find(seconds, 1, found), 0);
}

static const test_case cases[] = {
    CASE(who_comes_last_is_who_was_waited_for), CASE(waiting_is_no_work),     CASE(time_without_a_core_is_no_work),
    CASE(stragglers_are_found_in_noise),        CASE(ten_percent_are_enough), CASE(what_passes_is_not_named),
};

TEST_MAIN(cases)
