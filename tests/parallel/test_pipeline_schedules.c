/* Pipeline schedules: lengths, bubbles and memory of the papers' formulas, PyTorch's orders, and bounds. */
#include <math.h>
#include <stdlib.h>

#include "base/text/json.h"
#include "parallel/pipeline/pipeline.h"
#include "support/test.h"

/* F = BI = BW = 1. */
static const tess_pipeline_costs ones = {.forward = 1, .backward = 2, .input = 1, .weight = 1};

static int least(int a, int b)
{
    return a < b ? a : b;
}

static tess_pipeline_report build_and_check(tess_pipeline_kind kind, int p, int v, int m,
                                            const tess_pipeline_costs *costs, tess_pipeline_schedule *s)
{
    tess_pipeline_report report;
    EXPECT_OK(tess_pipeline_build(test_mem(), kind, p, v, m, s));
    EXPECT_OK(tess_pipeline_check(s, costs, &report));
    return report;
}

static void close_both(tess_pipeline_schedule *s, tess_pipeline_report *report)
{
    tess_pipeline_report_free(report);
    tess_pipeline_free(s);
}

static void expect_near(double got, double want, const char *what, int p, int v, int m)
{
    if (!(fabs(got - want) < 1e-12))
        test_fail(__FILE__, __LINE__, "%s of p=%d v=%d m=%d is %.17g, expected %.17g", what, p, v, m, got, want);
}

static void expect_order(const tess_pipeline_schedule *s, int rank, const char *want)
{
    tess_buffer text = {.mem = test_mem()};
    EXPECT_OK(tess_pipeline_print_order(s, rank, &text));
    EXPECT_TEXT(text.data, want);
    tess_buffer_free(&text);
}

/* F = B = 1. */
static void four_stages_and_eight_micro_batches_take_22_slots(void)
{
    static const char *const orders[] = {"FFFFBFBFBFBFBBBB", "FFFBFBFBFBFBFBBB", "FFBFBFBFBFBFBFBB",
                                         "FBFBFBFBFBFBFBFB"};
    const tess_pipeline_costs costs = {.forward = 1, .backward = 1};
    for (int kind = TESS_PIPELINE_GPIPE; kind <= TESS_PIPELINE_1F1B; kind++) {
        tess_pipeline_schedule s;
        tess_pipeline_report report = build_and_check((tess_pipeline_kind)kind, 4, 1, 8, &costs, &s);
        expect_near(report.makespan, 22, "length", 4, 1, 8);
        expect_near(report.bubble, 3.0 / 11, "bubble", 4, 1, 8);
        for (int r = 0; r < 4; r++) {
            expect_order(&s, r, kind == TESS_PIPELINE_GPIPE ? "FFFFFFFFBBBBBBBB" : orders[r]);
            EXPECT_INT(report.in_flight[r], kind == TESS_PIPELINE_GPIPE ? 8 : 4 - r);
        }
        close_both(&s, &report);
    }
}

static void gpipe_and_1f1b_idle_p_minus_1_of_m_plus_p_minus_1(void)
{
    for (int p = 1; p <= 9; p++)
        for (int m = 1; m <= 20; m++)
            for (int kind = TESS_PIPELINE_GPIPE; kind <= TESS_PIPELINE_1F1B; kind++) {
                tess_pipeline_schedule s;
                tess_pipeline_report report = build_and_check((tess_pipeline_kind)kind, p, 1, m, &ones, &s);
                expect_near(report.makespan, 3 * (m + p - 1), "length", p, 1, m);
                expect_near(report.bubble, (p - 1.0) / (m + p - 1), "bubble", p, 1, m);
                for (int r = 0; r < p; r++)
                    EXPECT_INT(report.in_flight[r], kind == TESS_PIPELINE_GPIPE ? m : least(m, p - r));
                close_both(&s, &report);
            }
}

/* Narayanan et al. 2021, 2.2.2: v times less bubble; a rank holds 2(p-1-r) + (v-1)p + 1 chunks. */
static void interleaved_idles_v_times_less(void)
{
    for (int p = 1; p <= 6; p++)
        for (int v = 2; v <= 5; v++)
            for (int rounds = 1; rounds <= 5; rounds++) {
                int m = p * rounds;
                tess_pipeline_schedule s;
                tess_pipeline_report report = build_and_check(TESS_PIPELINE_INTERLEAVED, p, v, m, &ones, &s);
                expect_near(report.bubble, (p - 1.0) / (v * m + p - 1), "bubble", p, v, m);
                for (int r = 0; r < p; r++)
                    EXPECT_INT(report.in_flight[r], least(v * m, 2 * (p - 1 - r) + (v - 1) * p + 1));
                close_both(&s, &report);
            }
}

/* Qi et al. 2023: a third of 1F1B's bubble, with the memory that its first rank has, on all of them. The last rank
 * cannot begin before p - 1, and works 3m: no schedule is shorter. */
static void zb_h1_is_as_short_as_a_schedule_can_be(void)
{
    for (int p = 1; p <= 8; p++)
        for (int m = 1; m <= 20; m++) {
            tess_pipeline_schedule s;
            tess_pipeline_report report = build_and_check(TESS_PIPELINE_ZB_H1, p, 1, m, &ones, &s);
            if (m >= p)
                expect_near(report.makespan, 3 * m + p - 1, "length", p, 1, m);
            for (int r = 0; r < p; r++)
                EXPECT_INT(report.in_flight[r], least(m, p));
            close_both(&s, &report);
        }
}

/* Bubbles of the design, by length: 1F1B and interleaved with F = 1, B = 2. */
static void bubbles_are_those_of_the_papers(void)
{
    static const struct {
        tess_pipeline_kind kind;
        int p, v, m;
        double bubble;
    } cases[] = {{TESS_PIPELINE_1F1B, 2, 1, 4, .2},
                 {TESS_PIPELINE_1F1B, 4, 1, 8, 3.0 / 11},
                 {TESS_PIPELINE_1F1B, 8, 1, 16, 7.0 / 23},
                 {TESS_PIPELINE_INTERLEAVED, 2, 2, 4, 1.0 / 9},
                 {TESS_PIPELINE_INTERLEAVED, 4, 2, 8, 3.0 / 19},
                 {TESS_PIPELINE_INTERLEAVED, 8, 2, 16, 7.0 / 39},
                 {TESS_PIPELINE_ZB_H1, 4, 1, 8, 3.0 / 27},
                 {TESS_PIPELINE_ZBV, 4, 2, 8, 3.0 / 51}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tess_pipeline_schedule s;
        tess_pipeline_report report = build_and_check(cases[i].kind, cases[i].p, cases[i].v, cases[i].m, &ones, &s);
        expect_near(report.bubble, cases[i].bubble, "bubble", cases[i].p, cases[i].v, cases[i].m);
        close_both(&s, &report);
    }
}

/* No rank idles between its first computation and its last, once there are 2p micro-batches; ZB-V holds 2p halves of a
 * rank's layers, DualPipe (DeepSeek-V3, table 2) one more. */
static void v_shapes_have_no_bubble_inside(void)
{
    for (int p = 1; p <= 8; p++)
        for (int m = 2 * p; m <= 2 * p + 9; m++) {
            tess_pipeline_schedule s;
            tess_pipeline_report report = build_and_check(TESS_PIPELINE_ZBV, p, 2, m, &ones, &s);
            expect_near(report.makespan, 6 * m + p - 1, "length", p, 2, m);
            for (int r = 0; r < p; r++)
                EXPECT_INT(report.in_flight[r], 2 * p);
            close_both(&s, &report);
            report = build_and_check(TESS_PIPELINE_DUALPIPEV, p, 2, m, &ones, &s);
            expect_near(report.makespan, 6 * m + p - 1, "length", p, 2, m);
            for (int r = 0; r < p; r++)
                EXPECT_INT(report.in_flight[r], 2 * p + 1);
            close_both(&s, &report);
        }
}

static bool ends_chunk(const tess_pipeline_action *a)
{
    return a->op == TESS_PIPELINE_B || a->op == TESS_PIPELINE_BW;
}

/* Each schedule that can be built, with one buffer between stages, uneven stages and slow messages, too. */
static void every_schedule_passes_the_checker(void)
{
    int built = 0;
    double share[64];
    for (int g = 0; g < 64; g++)
        share[g] = 0.5 + g % 5;
    const tess_pipeline_costs all[] = {
        ones,
        {.forward = 1, .backward = 2, .input = 1, .weight = 1, .buffers = 1},
        {.forward = 1, .backward = 1.7, .input = 1.1, .weight = 0.6, .send = 0.3, .share = share, .buffers = 2},
        {.forward = 1, .backward = 1.9, .input = 1.1, .weight = 0.8}};
    for (int kind = 0; kind < TESS_PIPELINE_KINDS; kind++)
        for (int p = 1; p <= 8; p++)
            for (int v = 1; v <= 4; v++)
                for (int m = 1; m <= 24; m++) {
                    tess_pipeline_schedule s;
                    if (tess_pipeline_allows((tess_pipeline_kind)kind, p, v, m) != TESS_OK) {
                        EXPECT(tess_pipeline_build(test_mem(), (tess_pipeline_kind)kind, p, v, m, &s) ==
                               TESS_E_INVALID);
                        EXPECT(s.lists == NULL);
                        continue;
                    }
                    for (int c = 0; c < 4; c++) {
                        const char *formula;
                        tess_pipeline_report report = build_and_check((tess_pipeline_kind)kind, p, v, m, &all[c], &s);
                        double stated = tess_pipeline_formula(&s, &all[c], &formula);
                        EXPECT(isnan(stated) == (formula == NULL));
                        EXPECT(formula == NULL || c == 0 || c == 3);
                        if (formula != NULL)
                            expect_near(report.bubble, stated, tess_pipeline_kind_name(s.kind), p, v, m);
                        for (int r = 0; r < p; r++) { /* the schedule takes what it states */
                            int marked = 0;
                            EXPECT_INT(s.lists[r].in_flight, report.in_flight[r]);
                            for (int chunk = 0; chunk < v; chunk++)
                                EXPECT_INT(s.lists[r].slots[chunk], report.slots[r * v + chunk]);
                            for (int i = 0; i < s.lists[r].n; i++)
                                marked += s.lists[r].actions[i].last && ends_chunk(&s.lists[r].actions[i]);
                            EXPECT_INT(marked, v);
                        }
                        close_both(&s, &report);
                    }
                    built++;
                }
    EXPECT(built > 900);
}

static void stages_lie_in_a_loop_or_a_v(void)
{
    tess_pipeline_schedule s;
    EXPECT_OK(tess_pipeline_build(test_mem(), TESS_PIPELINE_INTERLEAVED, 3, 2, 3, &s));
    EXPECT_INT(tess_pipeline_stage(&s, 1, 1), 4);
    EXPECT(tess_pipeline_crosses(&s, 2) && !tess_pipeline_crosses(&s, 5) && !tess_pipeline_crosses(&s, -1));
    tess_pipeline_free(&s);
    EXPECT_OK(tess_pipeline_build(test_mem(), TESS_PIPELINE_ZBV, 3, 2, 3, &s));
    EXPECT_INT(tess_pipeline_stage(&s, 0, 1), 5);
    EXPECT_INT(tess_pipeline_stage(&s, 2, 1), 3);
    EXPECT(!tess_pipeline_crosses(&s, 2) && tess_pipeline_crosses(&s, 3));
    for (int g = 0; g < 6; g++)
        EXPECT_INT(tess_pipeline_stage(&s, tess_pipeline_rank_of(&s, g), tess_pipeline_chunk_of(&s, g)), g);
    tess_pipeline_free(&s);
}

/* tests/parallel/fixtures/pipeline_orders.txt, which tools/make_pipeline_fixture.py makes. */
static void orders_are_those_of_pytorch(void)
{
    char line[1 << 14], name[32];
    int lines = 0, p, v, m, rank, at;
    FILE *file = fopen(test_path("parallel/fixtures/pipeline_orders.txt"), "r");
    EXPECT(file != NULL);
    while (fgets(line, sizeof(line), file) != NULL) {
        tess_pipeline_kind kind;
        tess_pipeline_schedule s;
        EXPECT_INT(sscanf(line, "%31s %d %d %d %d%n", name, &p, &v, &m, &rank, &at), 5);
        EXPECT_OK(tess_pipeline_kind_parse(name, &kind));
        EXPECT_OK(tess_pipeline_build(test_mem(), kind, p, v, m, &s));
        for (int i = 0; i < s.lists[rank].n; i++) {
            const tess_pipeline_action *a = &s.lists[rank].actions[i];
            int chunk, micro, n;
            if (a->op > TESS_PIPELINE_BW)
                continue;
            EXPECT_INT(sscanf(line + at, "%31s %d.%d%n", name, &chunk, &micro, &n), 3);
            at += n;
            if (strcmp(name, tess_pipeline_op_name(a->op)) != 0 || chunk != a->chunk || micro != a->micro)
                test_fail(__FILE__, __LINE__, "%s p=%d v=%d m=%d rank %d, action %d: %s %d.%d, expected %s %d.%d",
                          tess_pipeline_kind_name(kind), p, v, m, rank, i, tess_pipeline_op_name(a->op), a->chunk,
                          a->micro, name, chunk, micro);
        }
        EXPECT_TEXT(line + at, "\n");
        tess_pipeline_free(&s);
        lines++;
    }
    fclose(file);
    EXPECT_INT(lines, 399);
}

/* ---- The shortest of all schedules of three computations, by trying them all ---- */
/* The work that a rank has done: numbers of F, BI and BW. */
typedef struct progress {
    int f, i, w;
} progress;

static progress progress_of(int code, int m)
{
    return (progress){code % (m + 1), code / (m + 1) % (m + 1), code / (m + 1) / (m + 1)};
}

static int code_of(progress x, int m)
{
    return x.f + (m + 1) * (x.i + (m + 1) * x.w);
}

/* Adds all states that follow a state in one unit of time, where each rank does one of its computations or nothing. */
static void follow(const progress *now, int p, int m, int slots, int rank, size_t code, size_t scale, char *next)
{
    if (rank == p) {
        next[code] = 1;
        return;
    }
    const progress *x = &now[rank];
    const size_t size = (size_t)(m + 1) * (size_t)(m + 1) * (size_t)(m + 1);
    progress then[4] = {*x, {x->f + 1, x->i, x->w}, {x->f, x->i + 1, x->w}, {x->f, x->i, x->w + 1}};
    const bool can[4] = {true, x->f < m && x->f - x->w < slots && (rank == 0 || now[rank - 1].f > x->f),
                         x->i < x->f && now[rank + 1].i > x->i, x->w < x->i};
    for (int k = 0; k < 4; k++)
        if (can[k])
            follow(now, p, m, slots, rank + 1, code + scale * (size_t)code_of(then[k], m), scale * size, next);
}

static int shortest(int p, int m, int slots)
{
    size_t size = (size_t)(m + 1) * (size_t)(m + 1) * (size_t)(m + 1), all = 1;
    for (int r = 0; r < p; r++)
        all *= size;
    char *now = calloc(all, 1), *next = calloc(all, 1);
    int time = 0;
    EXPECT(now != NULL && next != NULL);
    for (now[0] = 1; !now[all - 1]; time++) {
        memset(next, 0, all);
        for (size_t code = 0; code < all; code++) {
            progress ranks[5] = {{0}};
            size_t rest = code;
            if (!now[code])
                continue;
            for (int r = 0; r < p; r++, rest /= size)
                ranks[r] = progress_of((int)(rest % size), m);
            ranks[p].i = m + 1; /* no rank follows the last one */
            follow(ranks, p, m, slots, 0, 0, 1, next);
        }
        char *swap = now;
        now = next;
        next = swap;
    }
    free(now);
    free(next);
    return time;
}

static void zb_h1_is_the_shortest_of_all_with_its_memory(void)
{
    static const struct {
        int p, m;
    } cases[] = {{1, 1}, {1, 5}, {2, 1}, {2, 2}, {2, 3}, {2, 5}, {2, 7},
                 {3, 1}, {3, 2}, {3, 3}, {3, 4}, {4, 1}, {4, 2}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int p = cases[i].p, m = cases[i].m;
        tess_pipeline_schedule s;
        tess_pipeline_report report = build_and_check(TESS_PIPELINE_ZB_H1, p, 1, m, &ones, &s);
        int best = shortest(p, m, p);
        if (report.makespan != best)
            test_fail(__FILE__, __LINE__, "p=%d m=%d takes %g, the shortest is %d", p, m, report.makespan, best);
        close_both(&s, &report);
    }
}

/* ---- Bad input ---- */
static void bounds_say_which_numbers_would_do(void)
{
    EXPECT_FAILS(tess_pipeline_allows(TESS_PIPELINE_INTERLEAVED, 4, 2, 10), TESS_E_INVALID,
                 "interleaved with 4 ranks needs a multiple of 4 micro-batches: 8 or 12, not 10");
    EXPECT_FAILS(tess_pipeline_allows(TESS_PIPELINE_INTERLEAVED, 4, 2, 3), TESS_E_INVALID, "micro-batches: 4, not 3");
    EXPECT_FAILS(tess_pipeline_allows(TESS_PIPELINE_INTERLEAVED, 4, 1, 8), TESS_E_INVALID,
                 "needs 2 .. 64 chunks a rank, not 1: with one chunk it is 1f1b");
    EXPECT_FAILS(tess_pipeline_allows(TESS_PIPELINE_INTERLEAVED, 4, 65, 8), TESS_E_INVALID, "2 .. 64 chunks");
    EXPECT_FAILS(tess_pipeline_allows(TESS_PIPELINE_1F1B, 4, 2, 8), TESS_E_INVALID,
                 "1f1b needs 1 chunk a rank, not 2: interleaved takes several");
    EXPECT_FAILS(tess_pipeline_allows(TESS_PIPELINE_ZBV, 4, 3, 8), TESS_E_INVALID, "zbv needs 2 chunks a rank, not 3");
    EXPECT_FAILS(tess_pipeline_allows(TESS_PIPELINE_DUALPIPEV, 4, 2, 7), TESS_E_INVALID,
                 "dualpipev with 4 ranks needs 8 or more micro-batches, not 7");
    EXPECT_FAILS(tess_pipeline_allows(TESS_PIPELINE_GPIPE, 0, 1, 8), TESS_E_INVALID, "1 or more ranks, not 0");
    EXPECT_FAILS(tess_pipeline_allows(TESS_PIPELINE_GPIPE, 4, 1, 0), TESS_E_INVALID, "1 or more micro-batches, not 0");
    EXPECT_FAILS(tess_pipeline_allows(TESS_PIPELINE_GPIPE, 4, -1, 1), TESS_E_INVALID, "1 chunk a rank, not -1");
    EXPECT_FAILS(tess_pipeline_allows(TESS_PIPELINE_GPIPE, 1 << 30, 1, 1 << 30), TESS_E_INVALID,
                 "the product may be 4194304");
}

static void costs_are_times(void)
{
    tess_pipeline_schedule s;
    double share[2] = {1, -1};
    EXPECT_OK(tess_pipeline_build(test_mem(), TESS_PIPELINE_1F1B, 2, 1, 2, &s));
    EXPECT_FAILS(tess_pipeline_check(&s, &(tess_pipeline_costs){.forward = NAN}, NULL), TESS_E_INVALID, "F costs nan");
    EXPECT_FAILS(tess_pipeline_check(&s, &(tess_pipeline_costs){.backward = -1}, NULL), TESS_E_INVALID, "B costs -1");
    EXPECT_FAILS(tess_pipeline_check(&s, &(tess_pipeline_costs){.forward = 1, .share = share}, NULL), TESS_E_INVALID,
                 "the share of stage 1 is -1");
    EXPECT_FAILS(tess_pipeline_check(&s, &(tess_pipeline_costs){.buffers = -1}, NULL), TESS_E_INVALID, "-1 message");
    EXPECT_OK(tess_pipeline_check(&s, &(tess_pipeline_costs){0}, NULL));
    tess_pipeline_free(&s);
}

/* Times as ranks measure them, on a clock that started long ago, of stages that each take another time. */
static void measured_times_give_what_was_simulated(void)
{
    enum { P = 3, M = 6, CHUNKS = 2 };
    for (int kind = 0; kind < TESS_PIPELINE_KINDS; kind++) {
        tess_pipeline_stage_costs stages[P * CHUNKS], mean[P * CHUNKS];
        tess_pipeline_schedule s;
        tess_pipeline_report measured;
        for (int g = 0; g < P * CHUNKS; g++)
            stages[g] = (tess_pipeline_stage_costs){{2 + g % 4, 5 - g % 3, 2, 1 + g % 2}};
        int chunks = tess_pipeline_usual_chunks((tess_pipeline_kind)kind);
        const tess_pipeline_costs costs = {.send = 0.5, .stages = stages};
        tess_pipeline_report report = build_and_check((tess_pipeline_kind)kind, P, chunks, M, &costs, &s);
        EXPECT_OK(tess_pipeline_report_create(&s, &measured));
        for (int r = 0; r < P; r++)
            for (int i = 0; i < s.lists[r].n; i++)
                measured.times[r][i] =
                    (tess_pipeline_time){report.times[r][i].start + 1e6, report.times[r][i].end + 1e6, 0};
        tess_pipeline_measure(&s, &measured);
        expect_near(measured.makespan, report.makespan, "the length", P, chunks, M);
        expect_near(measured.bubble, report.bubble, "the bubble", P, chunks, M);
        for (int r = 0; r < P; r++) {
            expect_near(measured.busy[r], report.busy[r], "a rank's time", P, chunks, M);
            expect_near(measured.idle[r], report.idle[r], "a rank's idle share", P, chunks, M);
        }
        tess_pipeline_mean_costs(&s, &measured, mean);
        for (int g = 0; g < P * chunks; g++)
            for (int op = 0; op <= TESS_PIPELINE_BW; op++)
                if (mean[g].of[op] != 0)
                    expect_near(mean[g].of[op], stages[g].of[op], "the mean time of an action", P, chunks, M);
        tess_pipeline_report_free(&measured);
        close_both(&s, &report);
    }
    tess_pipeline_schedule s;
    tess_pipeline_stage_costs bad[2] = {{{1, 1, 1, 1}}, {{1, NAN, 1, 1}}};
    EXPECT_OK(tess_pipeline_build(test_mem(), TESS_PIPELINE_1F1B, 2, 1, 2, &s));
    EXPECT_FAILS(tess_pipeline_check(&s, &(tess_pipeline_costs){.stages = bad}, NULL), TESS_E_INVALID,
                 "B of stage 1 costs nan");
    tess_pipeline_free(&s);
}

static void names_are_read_in_any_case(void)
{
    tess_pipeline_kind kind;
    for (int k = 0; k < TESS_PIPELINE_KINDS; k++) {
        EXPECT_OK(tess_pipeline_kind_parse(tess_pipeline_kind_name((tess_pipeline_kind)k), &kind));
        EXPECT_INT(kind, k);
    }
    EXPECT_OK(tess_pipeline_kind_parse("Interleaved1F1B", &kind));
    EXPECT_INT(kind, TESS_PIPELINE_INTERLEAVED);
    EXPECT_OK(tess_pipeline_kind_parse("1F1B", &kind));
    EXPECT_INT(kind, TESS_PIPELINE_1F1B);
    EXPECT_FAILS(tess_pipeline_kind_parse("gpip", &kind), TESS_E_INVALID, "did you mean 'gpipe'");
    EXPECT_FAILS(tess_pipeline_kind_parse("", &kind), TESS_E_INVALID, NULL);
}

static void advice_is_the_smallest_number(void)
{
    static const struct {
        tess_pipeline_kind kind;
        int p, v, m;
    } cases[] = {{TESS_PIPELINE_1F1B, 4, 1, 28},        /* 3 / (m + 3) < 1/10: m > 27 */
                 {TESS_PIPELINE_INTERLEAVED, 4, 2, 16}, /* 2m > 27, a multiple of 4 */
                 {TESS_PIPELINE_ZB_H1, 4, 1, 10},       /* 3m > 27 */
                 {TESS_PIPELINE_DUALPIPEV, 4, 2, 8},    /* fewer are not allowed */
                 {TESS_PIPELINE_GPIPE, 1, 1, 1}};
    int micros;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tess_pipeline_schedule s;
        EXPECT_OK(tess_pipeline_build(test_mem(), cases[i].kind, cases[i].p, cases[i].v, 8, &s));
        EXPECT_OK(tess_pipeline_least_micros(&s, &ones, 0.1, &micros));
        EXPECT_INT(micros, cases[i].m);
        tess_pipeline_free(&s);
    }
    const double share[] = {1, 3}; /* rank 0 waits two thirds of its time, forever */
    tess_pipeline_costs costs = ones;
    tess_pipeline_schedule s;
    costs.share = share;
    EXPECT_OK(tess_pipeline_build(test_mem(), TESS_PIPELINE_1F1B, 2, 1, 8, &s));
    EXPECT_OK(tess_pipeline_least_micros(&s, &costs, 0.1, &micros));
    EXPECT_INT(micros, 0);
    tess_pipeline_free(&s);
}

/* ---- Output for people ---- */
static void a_timeline_shows_numbers_where_they_fit(void)
{
    tess_pipeline_schedule s;
    tess_buffer text = {.mem = test_mem()};
    tess_pipeline_report report = build_and_check(TESS_PIPELINE_1F1B, 2, 1, 2, &ones, &s);
    EXPECT_OK(tess_pipeline_print_timeline(&s, &report, 80, &text));
    EXPECT_TEXT(text.data, "rank 0  F0 F1 .  .  B0--- .  B1---\nrank 1  .  F0 B0--- F1 B1--- .  .\n");
    tess_buffer_free(&text);
    EXPECT_OK(tess_pipeline_print_timeline(&s, &report, 20, &text));
    EXPECT_TEXT(text.data, "rank 0  FF..BB.BB\nrank 1  .FBBFBB..\n");
    tess_buffer_free(&text);
    EXPECT_OK(tess_pipeline_print_timeline(&s, &report, 3, &text));
    EXPECT_TEXT(text.data, "rank 0  FBB\nrank 1  FF.\n");
    tess_buffer_free(&text);
    close_both(&s, &report);
}

static void a_trace_has_all_computations_and_messages(void)
{
    enum { P = 3, M = 5, ARROWS = 2 * (2 * P - 2) * M };
    char path[512];
    bool starts[2 * 2 * P * M + 1] = {false}, ends[2 * 2 * P * M + 1] = {false};
    int n_slices = 0, n_arrows = 0;
    double end = 0;
    tess_pipeline_schedule s;
    tess_pipeline_report report = build_and_check(TESS_PIPELINE_ZBV, P, 2, M, &ones, &s);
    json_t *trace, *event;
    size_t i;
    snprintf(path, sizeof(path), "%s/trace.json", test_folder());
    EXPECT_OK(tess_pipeline_write_trace(&s, &report, path));
    EXPECT_OK(tess_json_load(path, 1 << 20, &trace));
    json_array_foreach (json_object_get(trace, "traceEvents"), i, event) {
        const char *kind = json_string_value(json_object_get(event, "ph"));
        double ts = json_number_value(json_object_get(event, "ts"));
        json_int_t id = json_integer_value(json_object_get(event, "id"));
        if (kind[0] == 'X') {
            n_slices++;
            end = fmax(end, ts + json_number_value(json_object_get(event, "dur")));
        } else if (kind[0] == 's' || kind[0] == 'f') {
            bool *seen = kind[0] == 's' ? starts : ends;
            EXPECT(id > 0 && id <= 2 * 2 * P * M && !seen[id]);
            seen[id] = true;
            n_arrows++;
        }
    }
    EXPECT_INT(n_slices, P * 2 * 3 * M);
    EXPECT_INT(n_arrows, 2 * ARROWS);
    EXPECT_SAME(starts, ends, sizeof(starts));
    expect_near(end, report.makespan * 1000, "end of the trace", P, 2, M);
    json_decref(trace);
    EXPECT_FAILS(tess_pipeline_write_trace(&s, &report, "/nowhere/trace.json"), TESS_E_NOT_FOUND,
                 "/nowhere/trace.json");
    close_both(&s, &report);
}

/* A dry step relies on this (plan/dry_rank.c): memory made for a step holds a shorter one of the same schedule. */
static void fewer_micro_batches_need_no_more_slots(void)
{
    for (int kind = 0; kind < TESS_PIPELINE_KINDS; kind++)
        for (int p = 2; p <= 8; p++) {
            int usual = tess_pipeline_usual_chunks((tess_pipeline_kind)kind);
            int most = kind == TESS_PIPELINE_INTERLEAVED ? 4 : usual, step = kind == TESS_PIPELINE_INTERLEAVED ? p : 1;
            for (int v = usual; v <= most; v++)
                for (int m = 4 * p + step; m <= 8 * p; m += step) {
                    tess_pipeline_schedule few, many;
                    EXPECT_OK(tess_pipeline_build(test_mem(), (tess_pipeline_kind)kind, p, v, 4 * p, &few));
                    EXPECT_OK(tess_pipeline_build(test_mem(), (tess_pipeline_kind)kind, p, v, m, &many));
                    for (int rank = 0; rank < p; rank++)
                        for (int chunk = 0; chunk < v; chunk++)
                            EXPECT(few.lists[rank].slots[chunk] <= many.lists[rank].slots[chunk]);
                    EXPECT_OK(tess_pipeline_tie(&few));
                    EXPECT_OK(tess_pipeline_tie(&many));
                    EXPECT(few.tables <= many.tables);
                    tess_pipeline_free(&few);
                    tess_pipeline_free(&many);
                }
        }
}

/* A rank in 1F1B takes the next micro-batch from the rank before it, which has sent it after it read the gradient of an
 * earlier one. So a rank may be ahead by one gradient. With GPipe no slot is used twice. */
static void few_gradients_may_be_unread(void)
{
    for (int kind = 0; kind < TESS_PIPELINE_KINDS; kind++)
        for (int p = 2; p <= 8; p++) {
            tess_pipeline_schedule s;
            EXPECT_OK(tess_pipeline_build(test_mem(), (tess_pipeline_kind)kind, p,
                                          tess_pipeline_usual_chunks((tess_pipeline_kind)kind), 4 * p, &s));
            for (int rank = 0; rank < p; rank++) {
                int n;
                EXPECT_OK(tess_pipeline_unread(&s, rank, &n));
                if (kind == TESS_PIPELINE_1F1B || kind == TESS_PIPELINE_GPIPE)
                    EXPECT_INT(n, kind == TESS_PIPELINE_1F1B && rank > 0);
                EXPECT(n <= s.lists[rank].in_flight);
            }
            tess_pipeline_free(&s);
        }
}

/* Two micro-batches have the same set only if all actions of the earlier one come before the later one is taken. A rank
 * takes a micro-batch before the first action of it or of any that follows. */
static void expect_sets(const tess_pipeline_schedule *s, int rank, int *n_sets)
{
    const tess_pipeline_list *list = &s->lists[rank];
    int set[64], holder[64] = {0}, last[64] = {0}, n_taken = 0;
    EXPECT(s->micros <= 64);
    EXPECT_OK(tess_pipeline_sets(s, rank, set, n_sets));
    EXPECT(*n_sets >= 1 && *n_sets <= s->micros);
    for (int i = 0; i < list->n; i++)
        last[list->actions[i].micro] = i;
    for (int i = 0; i < list->n; i++) {
        for (; n_taken <= list->actions[i].micro; n_taken++) {
            for (int m = 0; m < n_taken; m++)
                EXPECT(set[m] != set[n_taken] || last[m] < i);
            EXPECT(set[n_taken] >= 0 && set[n_taken] < *n_sets);
            holder[set[n_taken]] = n_taken;
        }
        EXPECT_INT(holder[set[list->actions[i].micro]], list->actions[i].micro);
    }
    EXPECT_INT(n_taken, s->micros);
}

static void micro_batches_share_the_memory_of_their_tokens(void)
{
    for (int kind = 0; kind < TESS_PIPELINE_KINDS; kind++)
        for (int p = 2; p <= 8; p++)
            for (int tied = 0; tied < 2; tied++) {
                int most[2] = {0};
                for (int longer = 0; longer < 2; longer++) {
                    tess_pipeline_schedule s;
                    EXPECT_OK(tess_pipeline_build(test_mem(), (tess_pipeline_kind)kind, p,
                                                  tess_pipeline_usual_chunks((tess_pipeline_kind)kind),
                                                  (4 + 4 * longer) * p, &s));
                    if (tied)
                        EXPECT_OK(tess_pipeline_tie(&s));
                    for (int rank = 0; rank < p; rank++) {
                        int n;
                        expect_sets(&s, rank, &n);
                        if (kind == TESS_PIPELINE_GPIPE)
                            EXPECT_INT(n, s.micros);
                        if (kind == TESS_PIPELINE_1F1B && !tied)
                            EXPECT_INT(n, s.lists[rank].in_flight);
                        if (rank == p / 2)
                            most[longer] = n;
                    }
                    tess_pipeline_free(&s);
                }
                if (kind != TESS_PIPELINE_GPIPE && !tied) /* a longer step takes no more */
                    EXPECT_INT(most[1], most[0]);
            }
}

static void an_action_of_a_micro_batch_that_is_not_there_is_refused(void)
{
    tess_pipeline_schedule s;
    int set[8], n_sets;
    EXPECT_OK(tess_pipeline_build(test_mem(), TESS_PIPELINE_1F1B, 2, 1, 8, &s));
    const int micros[] = {-1, 8};
    for (int i = 0; i < 2; i++) {
        tess_pipeline_action *action = &s.lists[1].actions[3];
        const int was = action->micro;
        action->micro = micros[i];
        EXPECT_FAILS(tess_pipeline_sets(&s, 1, set, &n_sets), TESS_E_INVALID, "pipeline: action 3 names micro-batch");
        action->micro = was;
        EXPECT_OK(tess_pipeline_sets(&s, 1, set, &n_sets));
    }
    tess_pipeline_free(&s);
}

/* Checks the order of heads, which write a tied table first, and of messages, which add to it. */
static void check_tied(const tess_pipeline_schedule *s)
{
    const int last = s->ranks * s->chunks - 1, owner = tess_pipeline_rank_of(s, last);
    const tess_pipeline_list *list = &s->lists[owner];
    int heads = 0, adds = 0, most = 0;
    for (int i = 0; i < list->n; i++) {
        const tess_pipeline_action *a = &list->actions[i];
        const int stage = tess_pipeline_stage(s, owner, a->chunk);
        const bool back = a->op == TESS_PIPELINE_B || a->op == TESS_PIPELINE_BI;
        const bool adds_here = owner == 0 && stage == 0 && (a->op == TESS_PIPELINE_B || a->op == TESS_PIPELINE_BW);
        if (back && stage == last)
            EXPECT_INT(a->micro, heads++);
        if (a->op == TESS_PIPELINE_RECV_T || adds_here)
            EXPECT_INT(a->micro, adds++);
        EXPECT(adds <= heads);
        most = heads - adds > most ? heads - adds : most;
    }
    EXPECT_INT(heads, s->micros);
    EXPECT_INT(adds, s->micros);
    EXPECT(s->tables == most || s->tables == most + (owner == 0)); /* the last stage's and the first's B at once */
}

static void tied_weights_add_to_the_table_in_the_order_of_the_heads(void)
{
    for (int kind = 0; kind < TESS_PIPELINE_KINDS; kind++)
        for (int p = 2; p <= 8; p++)
            for (int m = 1; m <= 4 * p; m++) {
                tess_pipeline_schedule s;
                int v = tess_pipeline_usual_chunks((tess_pipeline_kind)kind);
                if (tess_pipeline_allows((tess_pipeline_kind)kind, p, v, m) != TESS_OK) {
                    tess_error_clear();
                    continue;
                }
                tess_pipeline_report untied = build_and_check((tess_pipeline_kind)kind, p, v, m, &ones, &s), tied;
                EXPECT_OK(tess_pipeline_tie(&s));
                EXPECT_OK(tess_pipeline_check(&s, &ones, &tied));
                EXPECT(tied.makespan == untied.makespan); /* nobody waits for what is added */
                EXPECT_SAME(tied.slots, untied.slots, (size_t)(p * v));
                check_tied(&s);
                tess_pipeline_report_free(&tied);
                close_both(&s, &untied);
            }
}

/* A step is filled up with the fewest micro-batches that the schedule takes. */
static void a_step_is_filled_up_to_the_next_number_that_fits(void)
{
    for (int kind = 0; kind < TESS_PIPELINE_KINDS; kind++)
        for (int p = 2; p <= 5; p++)
            for (int m = 1; m <= 24; m++) {
                const tess_pipeline_kind k = (tess_pipeline_kind)kind;
                const int v = tess_pipeline_usual_chunks(k), filled = tess_pipeline_fill_up(k, p, m);
                EXPECT_OK(tess_pipeline_allows(k, p, v, filled));
                for (int fewer = m; fewer < filled; fewer++)
                    EXPECT(tess_pipeline_allows(k, p, v, fewer) == TESS_E_INVALID);
            }
}

static const test_case cases[] = {
    CASE(micro_batches_share_the_memory_of_their_tokens),
    CASE(an_action_of_a_micro_batch_that_is_not_there_is_refused),
    CASE(tied_weights_add_to_the_table_in_the_order_of_the_heads),
    CASE(a_trace_has_all_computations_and_messages),
    CASE(four_stages_and_eight_micro_batches_take_22_slots),
    CASE(gpipe_and_1f1b_idle_p_minus_1_of_m_plus_p_minus_1),
    CASE(interleaved_idles_v_times_less),
    CASE(zb_h1_is_as_short_as_a_schedule_can_be),
    CASE(zb_h1_is_the_shortest_of_all_with_its_memory),
    CASE(bubbles_are_those_of_the_papers),
    CASE(v_shapes_have_no_bubble_inside),
    CASE(every_schedule_passes_the_checker),
    CASE(stages_lie_in_a_loop_or_a_v),
    CASE(orders_are_those_of_pytorch),
    CASE(bounds_say_which_numbers_would_do),
    CASE(a_step_is_filled_up_to_the_next_number_that_fits),
    CASE(costs_are_times),
    CASE(measured_times_give_what_was_simulated),
    CASE(names_are_read_in_any_case),
    CASE(advice_is_the_smallest_number),
    CASE(fewer_micro_batches_need_no_more_slots),
    CASE(few_gradients_may_be_unread),
    CASE(a_timeline_shows_numbers_where_they_fit),
};
TEST_MAIN(cases)
