/* Layers cut into stages: against all cuts there are, and torchtitan's counts. */
#include <math.h>
#include <stdlib.h>

#include "parallel/pipeline/pipeline_stages.h"
#include "support/test.h"

enum { MOST = 16 };

static void expect_cut(const int *first, int stages, const int *sizes, int line)
{
    EXPECT_INT(first[0], 0);
    for (int g = 0; g < stages; g++)
        if (first[g + 1] - first[g] != sizes[g])
            test_fail(__FILE__, line, "stage %d has %d layers, expected %d", g, first[g + 1] - first[g], sizes[g]);
}

/* The first stages get the layers that are left; what embedding and head count for is taken off. */
static void even_cuts_are_those_of_torchtitan(void)
{
    int first[MOST];
    EXPECT_OK(tess_pipeline_cut_evenly(32, 0, 0, 4, first));
    expect_cut(first, 4, (int[]){8, 8, 8, 8}, __LINE__);
    EXPECT_OK(tess_pipeline_cut_evenly(14, 0, 0, 4, first));
    expect_cut(first, 4, (int[]){4, 4, 3, 3}, __LINE__);
    EXPECT_OK(tess_pipeline_cut_evenly(32, 1, 1, 8, first)); /* 34 = 5 + 5 + 6 x 4 */
    expect_cut(first, 8, (int[]){4, 5, 4, 4, 4, 4, 4, 3}, __LINE__);
    EXPECT_OK(tess_pipeline_cut_evenly(5, 3, 2, 1, first));
    expect_cut(first, 1, (int[]){5}, __LINE__);
    EXPECT_FAILS(tess_pipeline_cut_evenly(3, 0, 0, 4, first), TESS_E_INVALID,
                 "3 layers cannot be cut into 4 stages of a layer or more; take 3 stages or fewer");
    EXPECT_FAILS(tess_pipeline_cut_evenly(6, 1, 1, 8, first), TESS_E_INVALID, "take 6 stages or fewer");
    EXPECT_FAILS(tess_pipeline_cut_evenly(8, 1, 1, 8, first), TESS_E_INVALID,
                 "stage 7 of 8 gets 1 of 10 layers, which its embedding or head uses up (1)");
    EXPECT_FAILS(tess_pipeline_cut_evenly(8, -1, 0, 2, first), TESS_E_INVALID, "give 0 or more");
    EXPECT_FAILS(tess_pipeline_cut_evenly(8, 0, 0, 0, first), TESS_E_INVALID, "0 stages; give 1 or more");
}

static void layers_a_stage_say_how_many_chunks_there_are(void)
{
    const tess_pipeline_kind one = TESS_PIPELINE_1F1B, several = TESS_PIPELINE_INTERLEAVED, two = TESS_PIPELINE_ZBV;
    int chunks;
    EXPECT_OK(tess_pipeline_count_stages(one, 32, 8, 0, 0, 4, &chunks));
    EXPECT_INT(chunks, 1);
    EXPECT_OK(tess_pipeline_count_stages(several, 30, 4, 1, 1, 4, &chunks));
    EXPECT_INT(chunks, 2);
    EXPECT_FAILS(tess_pipeline_count_stages(one, 32, 5, 1, 1, 4, &chunks), TESS_E_INVALID,
                 "5 layers a stage make 7 stages of 34 layers, which is not a multiple of 4 ranks: take 9");
    EXPECT_FAILS(tess_pipeline_count_stages(several, 32, 5, 1, 1, 4, &chunks), TESS_E_INVALID, "of 4 ranks: take 3");
    EXPECT_FAILS(tess_pipeline_count_stages(several, 16, 3, 0, 0, 4, &chunks), TESS_E_INVALID, "4 ranks: take 2");
    EXPECT_FAILS(tess_pipeline_count_stages(one, 4, 9, 0, 0, 4, &chunks), TESS_E_INVALID,
                 "9 layers a stage make 1 stage of 4 layers, which is not a multiple of 4 ranks: take 1");
    EXPECT_FAILS(tess_pipeline_count_stages(one, 12, 2, 0, 0, 2, &chunks), TESS_E_INVALID,
                 "3 a rank, which 1f1b does not take (interleaved does): take 6");
    EXPECT_FAILS(tess_pipeline_count_stages(two, 12, 6, 0, 0, 2, &chunks), TESS_E_INVALID,
                 "1 a rank, which zbv does not take: take 3");
    EXPECT_FAILS(tess_pipeline_count_stages(one, 4, 3, 3, 0, 3, &chunks), TESS_E_INVALID,
                 "one of which is filled by its embedding or head (they count as 3 and 0)");
    EXPECT_FAILS(tess_pipeline_count_stages(one, 3, 1, 0, 0, 4, &chunks), TESS_E_INVALID,
                 "1f1b takes no other number of these layers either");
    EXPECT_FAILS(tess_pipeline_count_stages(one, 3, 0, 0, 0, 1, &chunks), TESS_E_INVALID, "0 layers a stage");
    EXPECT_FAILS(tess_pipeline_count_stages(one, 0, 1, 0, 0, 1, &chunks), TESS_E_INVALID, "0 layers");
}

/* The next number that a message proposes; 0: it proposes no more. */
static int next_proposal(const char **at)
{
    int n = 0;
    *at = strpbrk(*at, "0123456789");
    if (*at != NULL) {
        n = atoi(*at);
        *at += strspn(*at, "0123456789");
    }
    return *at != NULL ? n : 0;
}

/* Each number that is proposed is counted, its chunks suit the schedule, and its stages can be cut. */
static void every_number_that_is_proposed_is_accepted(void)
{
    int chunks, first[64], n_proposed = 0;
    char text[512];
    for (int kind = 0; kind < TESS_PIPELINE_KINDS; kind++)
        for (int layers = 1; layers <= 20; layers++)
            for (int ranks = 2; ranks <= 4; ranks++)
                for (int less = 0; less < 9; less++)
                    for (int n = 1; n <= 12; n++) {
                        const tess_pipeline_kind k = (tess_pipeline_kind)kind;
                        if (tess_pipeline_count_stages(k, layers, n, less / 3, less % 3, ranks, &chunks) == TESS_OK)
                            continue;
                        snprintf(text, sizeof(text), "%s", tess_error_message());
                        const char *at = strstr(text, ": take ");
                        for (int take; at != NULL && (take = next_proposal(&at)) > 0; n_proposed++) {
                            EXPECT_OK(tess_pipeline_count_stages(k, layers, take, less / 3, less % 3, ranks, &chunks));
                            EXPECT_OK(tess_pipeline_allows(k, ranks, chunks, 2 * ranks));
                            EXPECT_OK(tess_pipeline_cut_evenly(layers, less / 3, less % 3, chunks * ranks, first));
                        }
                    }
    EXPECT(n_proposed > 1000);
}

/* The best of all cuts of the layers l .. into the stages g .., by the largest stage, then the sum of squares. */
typedef struct best_cut {
    double largest, squares;
} best_cut;

static void try_all(const double *costs, int n, double embedding, double head, int stages, int g, int l, double largest,
                    double squares, best_cut *best)
{
    if (g == stages) {
        if (l == n && (largest < best->largest - 1e-9 || (largest < best->largest + 1e-9 && squares < best->squares)))
            *best = (best_cut){largest, squares};
        return;
    }
    double cost = (g == 0 ? embedding : 0) + (g == stages - 1 ? head : 0);
    for (int end = l; end < n;) {
        cost += costs[end++];
        try_all(costs, n, embedding, head, stages, g + 1, end, fmax(largest, cost), squares + cost * cost, best);
    }
}

static void cuts_by_cost_are_the_best_of_all(void)
{
    uint32_t seed = 1;
    for (int n = 1; n <= 10; n++)
        for (int stages = 1; stages <= n; stages++)
            for (int round = 0; round < 12; round++) {
                double costs[MOST], embedding = round % 3, head = round % 4 * 1.5, largest = 0, squares = 0;
                int first[MOST];
                for (int l = 0; l < n; l++) {
                    seed = seed * 1664525u + 1013904223u;
                    costs[l] = round == 0 ? 1 : (double)(seed >> 28); /* zeros among them */
                }
                best_cut best = {INFINITY, INFINITY};
                try_all(costs, n, embedding, head, stages, 0, 0, 0, 0, &best);
                EXPECT_OK(tess_pipeline_cut_by_cost(test_mem(), costs, n, embedding, head, stages, first));
                EXPECT_INT(first[0], 0);
                EXPECT_INT(first[stages], n);
                for (int g = 0; g < stages; g++) {
                    double cost = (g == 0 ? embedding : 0) + (g == stages - 1 ? head : 0);
                    EXPECT(first[g + 1] > first[g]);
                    for (int l = first[g]; l < first[g + 1]; l++)
                        cost += costs[l];
                    largest = fmax(largest, cost);
                    squares += cost * cost;
                }
                if (fabs(largest - best.largest) > 1e-9 || fabs(squares - best.squares) > 1e-9)
                    test_fail(__FILE__, __LINE__,
                              "%d layers, %d stages: largest %g and squares %g, the best are %g, %g", n, stages,
                              largest, squares, best.largest, best.squares);
            }
}

static void bad_costs_are_refused(void)
{
    int first[MOST];
    EXPECT_FAILS(tess_pipeline_cut_by_cost(test_mem(), (double[]){1, NAN}, 2, 0, 0, 1, first), TESS_E_INVALID,
                 "layer 1 costs nan; give a finite number of 0 or more");
    EXPECT_FAILS(tess_pipeline_cut_by_cost(test_mem(), (double[]){1, -1}, 2, 0, 0, 1, first), TESS_E_INVALID,
                 "layer 1 costs -1");
    EXPECT_FAILS(tess_pipeline_cut_by_cost(test_mem(), (double[]){1, 1}, 2, INFINITY, 0, 1, first), TESS_E_INVALID,
                 "embedding and head cost inf and 0");
    EXPECT_FAILS(tess_pipeline_cut_by_cost(test_mem(), (double[]){1, 1}, 2, 0, 0, 3, first), TESS_E_INVALID,
                 "2 layers cannot be cut into 3 stages");
}

static const test_case cases[] = {
    CASE(even_cuts_are_those_of_torchtitan),
    CASE(layers_a_stage_say_how_many_chunks_there_are),
    CASE(every_number_that_is_proposed_is_accepted),
    CASE(cuts_by_cost_are_the_best_of_all),
    CASE(bad_costs_are_refused),
};
TEST_MAIN(cases)
