/* Operations with equal fingerprints that are called from different sites. */
#include "comm/comm_impl.h"
#include "support/join.h"

enum { N = 1000 };

static float a[N], b[N];

/* Exactly two call sites: the functions are neither inlined nor called in tail position. */
static int n_calls;

static __attribute__((noinline)) tess_status sum_a(tess_team *team)
{
    tess_status status = tess_all_reduce(team, a, a, N, TESS_F32, TESS_SUM, NULL);
    n_calls++;
    return status;
}

static __attribute__((noinline)) tess_status sum_b(tess_team *team)
{
    tess_status status = tess_all_reduce(team, b, b, N, TESS_F32, TESS_SUM, NULL);
    n_calls++;
    return status;
}

static void two_alike_in_another_order_are_told(void)
{
    tess_runtime *rt = test_join();
    tess_team *team = tess_runtime_team(rt);
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(sum_a(team));
        EXPECT_OK(sum_b(team));
    }
    float before = a[0];
    EXPECT_FAILS(tess_team_rank(team) == 1 ? sum_b(team) : sum_a(team), TESS_E_MISMATCH,
                 "ranks disagree in their order, which all have kept before, the odd one out: rank 1: ranks 0 2 called "
                 "all_reduce #4 of team 'world': 1000 float32, sum (called at ");
    EXPECT_CONTAINS(tess_error_message(), "; rank 1 called all_reduce #4 of team 'world': 1000 float32, sum (called");
    EXPECT(a[0] == before);
    tess_runtime_destroy(&rt);
}

/* Each rank may have its own call site for a common operation, whether the others come to it later or never. */
static void branches_are_no_disorder(void)
{
    tess_runtime *rt = test_join();
    tess_team *team = tess_runtime_team(rt);
    int rank = tess_team_rank(team);
    for (int i = 0; i < 3; i++) {
        EXPECT_OK(rank == 0 ? sum_a(team) : sum_b(team));
        EXPECT_OK(sum_a(team));
    }
    EXPECT_OK(sum_b(team));
    EXPECT_OK(rank == 2 ? sum_a(team) : sum_b(team));
    tess_runtime_destroy(&rt);
}

/* A loop over the data, then a call that ends it: both are usual, and once some ranks have one turn more. */
static void turns_that_depend_on_data_are_no_disorder(void)
{
    tess_runtime *rt = test_join();
    tess_team *team = tess_runtime_team(rt);
    for (int i = 0; i < 3; i++)
        EXPECT_OK(sum_a(team));
    EXPECT_OK(sum_b(team));
    for (int i = 0; i < 3; i++)
        EXPECT_OK(sum_a(team));
    EXPECT_OK(tess_team_rank(team) == 1 ? sum_a(team) : sum_b(team));
    EXPECT_OK(sum_b(team));
    tess_runtime_destroy(&rt);
}

/* A label identifies an operation, wherever it is called. */
static void labels_tell_more_than_places(void)
{
    tess_runtime *rt = test_join();
    tess_team *team = tess_runtime_team(rt);
    EXPECT_OK(sum_a(team));
    EXPECT_OK(sum_b(team));
    tess_team_label(team, "grads", -1);
    EXPECT_OK(tess_team_rank(team) == 1 ? sum_b(team) : sum_a(team));
    tess_runtime_destroy(&rt);
}

/* A call site outside of every file, as in code made at run time. */
static tess_status call_at(tess_team *team, uintptr_t address)
{
    int32_t mine = 0, all[8];
    return tess_team_exchange(team, TESS_TRACE_TEAM_SPLIT, 0, 0, (const void *)address, &mine, all, sizeof(mine));
}

static void code_made_at_run_time_has_no_order(void)
{
    enum { MADE_A = 0x1000, MADE_B = 0x2000 };
    tess_runtime *rt = test_join();
    tess_team *team = tess_runtime_team(rt);
    int rank = tess_team_rank(team);
    uintptr_t program = (uintptr_t)&call_at;
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(call_at(team, MADE_A));
        EXPECT_OK(call_at(team, MADE_B));
    }
    EXPECT_OK(call_at(team, rank == 1 ? MADE_B : MADE_A)); /* the other function lies there now */
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(call_at(team, program));
        EXPECT_OK(call_at(team, program + 1));
    }
    EXPECT_OK(call_at(team, rank == 1 ? MADE_A : program)); /* a branch */
    tess_runtime_destroy(&rt);
}

/* All ranks alternate between two sites, of which one has no number. */
static void turns_without_a_number_are_turns(void)
{
    tess_runtime *rt = test_join();
    tess_team *team = tess_runtime_team(rt);
    uintptr_t program = (uintptr_t)&call_at;
    EXPECT_OK(call_at(team, program));
    tess_team_label(team, "grads", -1);
    EXPECT_OK(call_at(team, program));
    tess_team_label(team, NULL, 0);
    for (int i = 0; i < 4; i++)
        EXPECT_OK(call_at(team, program + (uintptr_t)(i % 3)));
    EXPECT_OK(call_at(team, program + (tess_team_rank(team) == 1 ? 2 : 1)));
    tess_runtime_destroy(&rt);
}

static const test_case cases[] = {
    CASE(two_alike_in_another_order_are_told, 3, 0, TEST_ALONE),
    CASE(branches_are_no_disorder, 3),
    CASE(turns_that_depend_on_data_are_no_disorder, 3),
    CASE(labels_tell_more_than_places, 3),
    CASE(code_made_at_run_time_has_no_order, 3),
    CASE(turns_without_a_number_are_turns, 3),
};
TEST_MAIN(cases)
