/* The order of a run's ranks in its mesh, without a job. */
#include "mesh/coordinates.h"
#include "mesh/rank_order.h"
#include "support/test.h"

enum { MOST = 512 };

/* The section with these degrees. Its list borrows the words. */
static tess_parallelism_section section_of(int pp, int replicas, int shards, int tp, char **words, int n)
{
    tess_parallelism_section s = {.rank_order = {n, words}};
    s.pipeline_parallel_degree = pp;
    s.data_parallel_replicate_degree = replicas;
    s.data_parallel_shard_degree = shards;
    s.tensor_parallel_degree = tp;
    return s;
}

static void expect_order(const tess_parallelism_section *s, int *hosts, int n, const int *expected)
{
    int ranks[MOST];
    bool ordered, by_number = true;
    EXPECT_OK(tess_rank_order_fill(s, hosts, ranks, &ordered));
    for (int place = 0; place < n; place++) {
        EXPECT_INT(ranks[place], expected[place]);
        by_number &= expected[place] == place;
    }
    EXPECT(ordered == !by_number);
}

static void without_an_order_ranks_stand_by_number(void)
{
    int ranks[MOST];
    bool ordered;
    const tess_parallelism_section s = section_of(3, 2, 4, 5, NULL, 0);
    EXPECT_OK(tess_rank_order_fill(&s, NULL, ranks, &ordered));
    for (int place = 0; place < 3 * 2 * 4 * 5; place++)
        EXPECT_INT(ranks[place], place);
}

static void ranks_and_ranges_are_an_order(void)
{
    char *words[] = {"0", "5-6", "1-3:2", "2-4:2"};
    const tess_parallelism_section s = section_of(1, 1, 7, 1, words, 4);
    expect_order(&s, NULL, 7, (const int[]){0, 5, 6, 1, 3, 2, 4});
}

/* tp 8 x pp 16 x dp 4: the pipelines of one place along dp are 128 dp + rank % 8 + 8 i. */
static void axes_in_another_order_are_an_order(void)
{
    char *words[] = {"tp-pp-dp"};
    int ranks[MOST], degrees[TESS_AXES];
    bool ordered;
    const tess_parallelism_section s = section_of(16, 2, 2, 8, words, 1);
    EXPECT_OK(tess_rank_order_fill(&s, NULL, ranks, &ordered));
    tess_axes_degrees(&s, degrees);
    for (int place = 0; place < MOST; place++) {
        const tess_coordinates at = tess_coordinates_by(degrees, place);
        EXPECT_INT(ranks[place], 128 * at.data + 8 * at.place[TESS_AXIS_PP] + at.place[TESS_AXIS_TP]);
    }
    char *usual[] = {"tp-dp_shard-dp_replicate-pp"}, *few[] = {"pp-tp"};
    const tess_parallelism_section by_number = section_of(3, 2, 2, 2, usual, 1), two = section_of(2, 1, 1, 3, few, 1);
    EXPECT_OK(tess_rank_order_fill(&by_number, NULL, ranks, &ordered));
    for (int place = 0; place < 24; place++)
        EXPECT_INT(ranks[place], place);
    expect_order(&two, NULL, 6, (const int[]){0, 2, 4, 1, 3, 5});
}

static void an_axis_that_crosses_hosts_is_moved_inside(void)
{
    int hosts[] = {0, 0, 0, 0, 1, 1, 1, 1}, turns[] = {0, 1, 0, 1, 0, 1, 0, 1}, uneven[] = {0, 0, 0, 1, 1, 1, 1, 1};
    char *words[] = {"0-3", "4-7"}, *pairs[] = {"0-6:2", "1-7:2"};
    tess_parallelism_section s = section_of(2, 1, 2, 2, NULL, 0);
    s.inside_hosts = 1 + TESS_AXIS_TP; /* it does not cross them */
    expect_order(&s, hosts, 8, (const int[]){0, 1, 2, 3, 4, 5, 6, 7});
    expect_order(&s, turns, 8, (const int[]){0, 2, 4, 6, 1, 3, 5, 7});
    s.inside_hosts = 1 + TESS_AXIS_PP;
    expect_order(&s, hosts, 8, (const int[]){0, 2, 4, 6, 1, 3, 5, 7});
    expect_order(&s, NULL, 8, (const int[]){0, 1, 2, 3, 4, 5, 6, 7}); /* one host */
    s.inside_hosts = 1 + TESS_AXIS_REPLICATE;                         /* one rank has nobody to stay with */
    expect_order(&s, hosts, 8, (const int[]){0, 1, 2, 3, 4, 5, 6, 7});
    int ranks[MOST];
    bool ordered;
    s.inside_hosts = 1 + TESS_AXIS_PP;
    EXPECT_FAILS(
        tess_rank_order_fill(&s, uneven, ranks, &ordered), TESS_E_INVALID,
        "parallelism.inside_hosts=pp: mesh: axis 'pp' cannot stay inside hosts: the host of rank 0 has 3 ranks, "
        "which groups of 2 do not divide");
    s.rank_order = (tess_text_list){2, words};
    EXPECT_FAILS(tess_rank_order_fill(&s, hosts, ranks, &ordered), TESS_E_INVALID,
                 "parallelism.inside_hosts=pp: groups of pp cross hosts in the order of parallelism.rank_order: leave "
                 "that out");
    s.rank_order = (tess_text_list){2, pairs}; /* this order keeps it inside */
    expect_order(&s, hosts, 8, (const int[]){0, 2, 4, 6, 1, 3, 5, 7});
}

static void no_orders_are_refused(void)
{
    static const struct {
        char *words[3];
        const char *expected;
    } cases[] = {
        {{"0", "1-2"}, "rank 3 is listed 0 times: list each of 0 to 5 once"},
        {{"0-5", "2"}, "rank 2 is listed 2 times: list each of 0 to 5 once"},
        {{"1-5", "0"}, "rank 1 is the first: begin with rank 0, which reports and writes for all"},
        {{"0-6"}, "'0-6' has rank 6, but the ranks that train are 0 to 5"},
        {{"0-", "1-5"}, "'0-' is no rank: write numbers, ranges such as 0-3, or 0-6:2"},
        {{"0-5:0"}, "'0-5:0' is no rank"},
        {{"5-0"}, "'5-0' is no rank"},
        {{"-1"}, "'-1' is no rank"},
        {{"99999999999"}, "'99999999999' is no rank"},
        {{"0-5x"}, "'0-5x' is no rank"},
        {{"0", "tp"}, "'tp' is no rank"},
        {{""}, "'' is no rank"},
        {{"tp-xp-pp"}, "'xp' is no axis: write an order such as tp-dp-pp"},
        {{"tp-tp"}, "axis 'tp' is named twice"},
        {{"dp-dp_shard"}, "axis 'dp_shard' is named twice"},
        {{"tp-dp"}, "'tp-dp' leaves out the axis pp of 3 ranks: add it"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int n = 0;
        char **words = (char **)(uintptr_t)cases[i].words;
        tess_rank_order order;
        while (n < 3 && words[n] != NULL)
            n++;
        const tess_parallelism_section s = section_of(3, 1, 1, 2, words, n);
        EXPECT_FAILS(tess_rank_order_read(&s, &order), TESS_E_INVALID, cases[i].expected);
        EXPECT_FAILS(tess_rank_order_read(&s, &order), TESS_E_INVALID, "parallelism.rank_order: ");
    }
}

static const test_case cases[] = {
    CASE(without_an_order_ranks_stand_by_number),
    CASE(ranks_and_ranges_are_an_order),
    CASE(axes_in_another_order_are_an_order),
    CASE(an_axis_that_crosses_hosts_is_moved_inside),
    CASE(no_orders_are_refused),
};
TEST_MAIN(cases)
