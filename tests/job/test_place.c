/* The placement of ranks on hosts, and their numbers. */
#include "support/test.h"

#include <stdlib.h>

#include "job/place.h"

static tess_card cards[8];

static void make(int n, const char *hosts, const int *cores)
{
    memset(cards, 0, sizeof(cards));
    for (int i = 0; i < n; i++) {
        snprintf(cards[i].host, sizeof(cards[i].host), "h%c", hosts[i]);
        cards[i].host_key = (uint64_t)hosts[i] * 77;
        cards[i].core = cores != NULL ? cores[i] : -1;
        cards[i].torchrun_rank = cards[i].torchrun_world = -1;
    }
}

static void ranks_of_a_host_follow_each_other(void)
{
    tess_placement p;
    make(6, "abcabc", NULL);
    EXPECT_OK(tess_place(test_mem(), cards, 6, &p));
    EXPECT_INT(p.n_hosts, 3);
    static const int ranks[] = {0, 2, 4, 1, 3, 5}, hosts[] = {0, 0, 1, 1, 2, 2}, processes[] = {0, 3, 1, 4, 2, 5};
    EXPECT_SAME(p.rank, ranks, 6);
    EXPECT_SAME(p.host, hosts, 6);
    EXPECT_SAME(p.process, processes, 6);
    EXPECT_INT(p.n[1], 2);
    tess_placement_free(test_mem(), &p);
}

static void uneven_hosts_and_cores_decide_the_order(void)
{
    tess_placement p;
    static const int cores[] = {3, 0, 1, 2, 0};
    make(5, "xxyxy", cores);
    EXPECT_OK(tess_place(test_mem(), cards, 5, &p));
    static const int ranks[] = {2, 0, 4, 1, 3};
    EXPECT_SAME(p.rank, ranks, 5);
    EXPECT_INT(p.n[0], 3);
    EXPECT_INT(p.n[1], 2);
    tess_placement_free(test_mem(), &p);
}

static void torchruns_numbers_must_fit(void)
{
    tess_placement p;
    make(2, "ab", NULL);
    for (int i = 0; i < 2; i++) {
        cards[i].torchrun_rank = 0;
        cards[i].torchrun_world = 2;
    }
    EXPECT_FAILS(tess_place(test_mem(), cards, 2, &p), TESS_E_INVALID,
                 "process 1 of 2 that MPI started on host hb has RANK=0");
    tess_placement_free(test_mem(), &p);
    cards[1].torchrun_rank = 1;
    EXPECT_OK(tess_place(test_mem(), cards, 2, &p));
    tess_placement_free(test_mem(), &p);
    cards[1].torchrun_world = 4;
    EXPECT_FAILS(tess_place(test_mem(), cards, 2, &p), TESS_E_INVALID, "WORLD_SIZE=4");
    tess_placement_free(test_mem(), &p);
}

static void a_card_says_what_a_process_is(void)
{
    static tess_card a, b;
    tess_card_fill(&a);
    tess_card_fill(&b);
    EXPECT(a.host[0] != '\0' && a.program_hash != 0 && a.version_hash != 0 && a.pid > 1);
    EXPECT_SAME(&a, &b, 1);
    setenv("TESSERA_HOST", "elsewhere", 1);
    tess_card_fill(&b);
    EXPECT_TEXT(b.host, "elsewhere");
    EXPECT(b.host_key != a.host_key);
}

static const test_case cases[] = {
    CASE(ranks_of_a_host_follow_each_other),
    CASE(uneven_hosts_and_cores_decide_the_order),
    CASE(torchruns_numbers_must_fit),
    CASE(a_card_says_what_a_process_is),
};
TEST_MAIN(cases)
