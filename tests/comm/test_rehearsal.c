/* Rehearsals: a difference between what ranks plan is found and named before any data moves. */
#include "comm/rehearsal/rehearsal.h"

#include "comm/dry/dry_runtime.h"
#include "comm/split.h"
#include "support/join.h"

enum { N = 64, LINES = 40 };

static const tess_runtime_options options = {.comm_timeout_s = 600};

/* ---- A dry rank that records ---- */
static tess_runtime *open_dry(const tess_team *whole, int group, tess_rehearsal *rehearsal)
{
    tess_runtime *dry;
    const int world = tess_team_size(whole);
    *rehearsal = (tess_rehearsal){.mem = test_mem(), .group = group, .what = "a step's micro-batches"};
    EXPECT_OK(tess_dry_runtime_create(
        &(tess_dry_options){.rank = tess_team_rank(whole), .world = world, .ranks_a_host = world, .n_threads = 1},
        &dry));
    tess_dry_runtime_rehearse(dry, rehearsal);
    return dry;
}

static tess_status compare(tess_team *whole, tess_runtime *dry, tess_rehearsal *rehearsal)
{
    const tess_status status = tess_rehearsal_compare(whole, rehearsal);
    tess_dry_runtime_destroy(&dry);
    tess_rehearsal_free(rehearsal);
    return status;
}

static tess_split_place by_parity(const void *context, int rank)
{
    (void)context;
    return (tess_split_place){rank % 2, rank};
}

static tess_split_place by_half(const void *context, int rank)
{
    (void)context;
    return (tess_split_place){rank / 2, rank};
}

/* ---- Calls on one team ---- */
/* A rehearsal of LINES sums. One rank omits one of them, or changes its size. */
static void rehearse_sums(tess_team *team, int odd, int left_out, int longer)
{
    float x[N] = {1};
    for (int i = 0; i < LINES; i++) {
        bool here = tess_team_rank(team) == odd;
        tess_team_label(team, "sum", i);
        if (!here || i != left_out)
            EXPECT_OK(tess_all_reduce(team, x, x, here && i == longer ? N : N - 1, TESS_F32, TESS_SUM, NULL));
    }
    tess_team_label(team, NULL, -1);
    EXPECT(x[0] == 1);
}

static void equal_rehearsals_agree_and_move_nothing(void)
{
    tess_runtime *rt = test_join_with(&options);
    tess_team *team = tess_runtime_team(rt);
    tess_rehearsal rehearsal;
    tess_runtime *dry = open_dry(team, 0, &rehearsal);
    float x = 1;
    rehearse_sums(tess_runtime_team(dry), -1, -1, -1);
    EXPECT_INT(rehearsal.n, LINES);
    EXPECT_OK(compare(team, dry, &rehearsal));
    dry = open_dry(team, 0, &rehearsal); /* a rank may plan nothing at all */
    EXPECT_OK(compare(team, dry, &rehearsal));
    EXPECT_OK(tess_all_reduce(team, &x, &x, 1, TESS_F32, TESS_SUM, NULL));
    EXPECT(x == (float)tess_team_size(team));
    tess_runtime_destroy(&rt);
}

static void expect_differ(int odd, int left_out, int longer, const char *needle)
{
    tess_runtime *rt = test_join_with(&options);
    tess_team *team = tess_runtime_team(rt);
    tess_rehearsal rehearsal;
    tess_runtime *dry = open_dry(team, 0, &rehearsal);
    rehearse_sums(tess_runtime_team(dry), odd, left_out, longer);
    EXPECT_FAILS(compare(team, dry, &rehearsal), TESS_E_MISMATCH, needle);
    EXPECT_FAILS(tess_barrier(team, NULL), TESS_E_MISMATCH, "what ranks plan to call differs");
    tess_runtime_destroy(&rt);
}

static void the_first_line_that_differs_is_shown(void)
{
    expect_differ(
        2, -1, 17,
        "the odd one out: rank 2: ranks 0 1 3 called all_reduce #17 of team 'world' for 'sum 17': 63 float32");
}

static void a_line_that_is_left_out_is_shown(void)
{
    expect_differ(1, 5, -1, "rank 1 called all_reduce #5 of team 'world' for 'sum 6'");
}

static void a_rehearsal_that_ends_early_is_shown(void)
{
    expect_differ(0, LINES - 1, -1, "rank 0 planned nothing more; ranks 1 2 called all_reduce #39 of team 'world'");
}

/* ---- Numbers ---- */
static void expect_counts(tess_runtime *rt, int64_t n, const char *needle)
{
    tess_rehearsal rehearsal;
    tess_runtime *dry = open_dry(tess_runtime_team(rt), 0, &rehearsal);
    rehearsal.number = n;
    rehearse_sums(tess_runtime_team(dry), n == 3 ? tess_runtime_rank(rt) : -1, 7, -1);
    EXPECT_FAILS(compare(tess_runtime_team(rt), dry, &rehearsal), TESS_E_MISMATCH, needle);
}

static void who_has_other_numbers_is_told_in_plain_words(void)
{
    tess_runtime *rt = test_join_with(&options);
    expect_counts(
        rt, tess_runtime_rank(rt) == 2 ? 3 : 4,
        "before the first step: ranks disagree, the odd one out: rank 2 has 3, ranks 0 1 3 have 4 of a step's "
        "micro-batches; all need as many");
    tess_runtime_destroy(&rt);
}

static void other_numbers_may_be_nobodys_fault(void)
{
    tess_runtime *rt = test_join_with(&options);
    expect_counts(rt, 3 + tess_runtime_rank(rt) / 2,
                  "ranks disagree: ranks 0 1 have 3, ranks 2 3 have 4 of a step's micro-batches");
    tess_runtime_destroy(&rt);
}

/* ---- Several teams ---- */
/* Shards of different teams differ in size; those of one team may not. */
static void teams_are_compared_among_their_members(void)
{
    tess_runtime *rt = test_join_with(&options);
    float x[N] = {0};
    const int rank = tess_runtime_rank(rt);
    for (int odd = 0; odd < 2; odd++) {
        tess_team *team = NULL;
        tess_rehearsal rehearsal;
        tess_runtime *dry = open_dry(tess_runtime_team(rt), 0, &rehearsal);
        EXPECT_OK(tess_team_split_by(tess_runtime_team(dry), by_parity, NULL, "pair", &team));
        const size_t n = (size_t)(10 + rank % 2 + (odd != 0 && rank == 3 ? 1 : 0));
        EXPECT_OK(tess_all_reduce(team, x, x, n, TESS_F32, TESS_SUM, NULL));
        tess_team_destroy(&team);
        if (odd != 0)
            EXPECT_FAILS(compare(tess_runtime_team(rt), dry, &rehearsal), TESS_E_MISMATCH,
                         "ranks disagree, a tie: rank 1 called all_reduce #0 of team 'pair'");
        else
            EXPECT_OK(compare(tess_runtime_team(rt), dry, &rehearsal));
    }
    tess_runtime_destroy(&rt);
}

static void a_rank_that_stays_away_is_noticed(void)
{
    tess_runtime *rt = test_join_with(&options);
    float x[N] = {0};
    const int rank = tess_runtime_rank(rt);
    tess_team *team = NULL;
    tess_rehearsal rehearsal;
    tess_runtime *dry = open_dry(tess_runtime_team(rt), rank, &rehearsal);
    EXPECT_OK(tess_team_split_by(tess_runtime_team(dry), by_parity, NULL, "pair", &team));
    if (rank != 1)
        EXPECT_OK(tess_all_reduce(team, x, x, 7, TESS_F32, TESS_SUM, NULL));
    tess_team_destroy(&team);
    EXPECT_FAILS(compare(tess_runtime_team(rt), dry, &rehearsal), TESS_E_MISMATCH,
                 "rank 3 planned all_reduce #0 of team 'pair': 7 float32, sum");
    EXPECT_CONTAINS(tess_error_message(), "other ranks of the team planned nothing on it");
    tess_runtime_destroy(&rt);
}

/* Ranks of a group that make the same calls in another order would wait for each other. */
static void the_order_of_teams_is_compared(void)
{
    tess_runtime *rt = test_join_with(&options);
    float x[N] = {0};
    const int rank = tess_runtime_rank(rt);
    tess_team *pair = NULL, *half = NULL;
    tess_rehearsal rehearsal;
    tess_runtime *dry = open_dry(tess_runtime_team(rt), 0, &rehearsal);
    EXPECT_OK(tess_team_split_by(tess_runtime_team(dry), by_parity, NULL, "pair", &pair));
    EXPECT_OK(tess_team_split_by(tess_runtime_team(dry), by_half, NULL, "half", &half));
    EXPECT_OK(tess_all_reduce(rank == 1 ? half : pair, x, x, 7, TESS_F32, TESS_SUM, NULL));
    EXPECT_OK(tess_all_reduce(rank == 1 ? pair : half, x, x, 7, TESS_F32, TESS_SUM, NULL));
    tess_team_destroy(&half);
    tess_team_destroy(&pair);
    EXPECT_FAILS(compare(tess_runtime_team(rt), dry, &rehearsal), TESS_E_MISMATCH, "the odd one out: rank 1");
    tess_runtime_destroy(&rt);
}

/* Ranks 0 and 1 plan their calls; ranks 2 and 3 do other things meanwhile. */
static void some_ranks_rehearse_without_the_others(void)
{
    tess_runtime *rt = test_join_with(&options);
    tess_team *role = NULL;
    float x[N] = {0};
    int rank = tess_runtime_rank(rt);
    EXPECT_OK(tess_team_split(tess_runtime_team(rt), rank / 2, rank, "role", &role));
    for (int odd = 0; odd < 2 && rank / 2 == 0; odd++) {
        tess_rehearsal rehearsal;
        tess_runtime *dry = open_dry(role, 0, &rehearsal);
        EXPECT_OK(
            tess_all_reduce(tess_runtime_team(dry), x, x, odd != 0 && rank == 1 ? 2 : 1, TESS_F32, TESS_SUM, NULL));
        if (odd != 0)
            EXPECT_FAILS(compare(role, dry, &rehearsal), TESS_E_MISMATCH, "ranks disagree, a tie: rank 0 called");
        else
            EXPECT_OK(compare(role, dry, &rehearsal));
    }
    EXPECT_OK(tess_barrier(tess_runtime_team(rt), NULL));
    tess_team_destroy(&role);
    tess_runtime_destroy(&rt);
}

/* ---- Stages ---- */
/* Two stages of two ranks: each stage has calls of its own, and messages lead from one to the other. */
typedef enum planted { NOTHING, STAGE_SUM, WORLD_SUM, LONGER, UNSENT, UNRECEIVED } planted;

static void rehearse_stages(tess_runtime *dry, planted odd)
{
    float x[N] = {0};
    int rank = tess_runtime_rank(dry), first = rank / 2 == 0, here = rank == 3;
    tess_team *stage = NULL, *pair = NULL;
    tess_work *work = NULL;
    EXPECT_OK(tess_team_split_by(tess_runtime_team(dry), by_half, NULL, "stage", &stage));
    EXPECT_OK(tess_team_split_by(tess_runtime_team(dry), by_parity, NULL, "pp", &pair));
    for (int i = 0; i < (first ? 4 : 2); i++) /* the stages differ */
        EXPECT_OK(tess_all_reduce(stage, x, x, (size_t)(3 + first + (odd == STAGE_SUM && here && i == 1)), TESS_F32,
                                  TESS_SUM, NULL));
    for (int i = 0; i < 6; i++) { /* the receiver takes the two tags in another order */
        int tag = first ? i % 2 : i / 3;
        size_t n = odd == LONGER && here && i == 4 ? 9 : 8;
        if ((odd == UNSENT && first && i == 5) || (odd == UNRECEIVED && !first && i == 2))
            continue;
        EXPECT_OK(first ? tess_send(pair, x, n, TESS_F32, 1, (uint32_t)tag, &work)
                        : tess_recv(pair, x, n, TESS_F32, 0, (uint32_t)tag, &work));
        EXPECT_OK(tess_work_wait(&work, 0));
    }
    EXPECT_OK(
        tess_all_reduce(tess_runtime_team(dry), x, x, odd == WORLD_SUM && here ? 2 : 1, TESS_F32, TESS_SUM, NULL));
    tess_team_destroy(&pair);
    tess_team_destroy(&stage);
}

static void stages_rehearse_calls_of_their_own(planted odd, const char *needle)
{
    tess_runtime *rt = test_join_with(&options);
    tess_rehearsal rehearsal;
    tess_runtime *dry = open_dry(tess_runtime_team(rt), tess_runtime_rank(rt) / 2, &rehearsal);
    rehearse_stages(dry, odd);
    if (odd == NOTHING)
        EXPECT_OK(compare(tess_runtime_team(rt), dry, &rehearsal));
    else
        EXPECT_FAILS(compare(tess_runtime_team(rt), dry, &rehearsal), TESS_E_MISMATCH, needle);
    tess_runtime_destroy(&rt);
}

static void stages_may_differ(void)
{
    stages_rehearse_calls_of_their_own(NOTHING, "");
}

static void ranks_of_a_stage_may_not_differ(void)
{
    stages_rehearse_calls_of_their_own(STAGE_SUM, "all_reduce #1 of team 'stage': 4 float32");
}

static void stages_call_alike_on_the_world(void)
{
    stages_rehearse_calls_of_their_own(WORLD_SUM, "the odd one out: rank 3");
}

static void a_message_of_another_length_is_shown(void)
{
    stages_rehearse_calls_of_their_own(LONGER, "messages differ: rank 1 planned send");
}

static void a_message_that_nobody_sends_is_shown(void)
{
    stages_rehearse_calls_of_their_own(UNSENT, "planned nothing for it");
}

static void a_message_that_nobody_receives_is_shown(void)
{
    stages_rehearse_calls_of_their_own(UNRECEIVED, "planned nothing for it");
}

/* Two pairs of ranks divide micro-batches. That of ranks 1 and 3 is empty: they have neither the message nor the
 * gathered rows. Rank `late` gathers them after the sum. */
static tess_status compare_batch_teams(tess_runtime *rt, const char *batch_team, int late)
{
    float x[N] = {0}, all[2 * N];
    const int rank = tess_runtime_rank(rt);
    tess_team *pair = NULL;
    tess_work *work = NULL;
    tess_rehearsal rehearsal;
    tess_runtime *dry = open_dry(tess_runtime_team(rt), 0, &rehearsal);
    rehearsal.batch_team = batch_team;
    EXPECT_OK(tess_team_split_by(tess_runtime_team(dry), by_parity, NULL, "pair", &pair));
    if (rank % 2 == 0) {
        EXPECT_OK(rank == 0 ? tess_send(pair, x, 8, TESS_F32, 1, 0, &work)
                            : tess_recv(pair, x, 8, TESS_F32, 0, 0, &work));
        EXPECT_OK(tess_work_wait(&work, 0));
    }
    for (int i = 0; i < 2; i++)
        if ((i == 1) == (rank == late))
            EXPECT_OK(rank % 2 == 0 ? tess_all_gather(pair, x, all, 3, TESS_F32, NULL) : TESS_OK);
        else
            EXPECT_OK(tess_all_reduce(tess_runtime_team(dry), x, x, 1, TESS_F32, TESS_SUM, NULL));
    tess_team_destroy(&pair);
    return compare(tess_runtime_team(rt), dry, &rehearsal);
}

static void calls_of_a_batch_team_may_depend_on_its_micro_batch(void)
{
    tess_runtime *rt = test_join_with(&options);
    EXPECT_OK(compare_batch_teams(rt, "pair", -1));
    EXPECT_FAILS(compare_batch_teams(rt, NULL, -1), TESS_E_MISMATCH, "ranks disagree");
    tess_runtime_destroy(&rt);
}

static void ranks_of_a_batch_team_call_in_one_order(void)
{
    tess_runtime *rt = test_join_with(&options);
    EXPECT_FAILS(compare_batch_teams(rt, "pair", 2), TESS_E_MISMATCH, "rank 0 called all_gather");
    EXPECT_CONTAINS(tess_error_message(), "rank 2 called all_reduce");
    tess_runtime_destroy(&rt);
}

/* Ranks 0 and 2 send to 1 and 3. Rank 2 sends after the sum: its message then waits for ranks that wait for it. */
static void a_message_and_a_call_in_another_order_are_shown(void)
{
    tess_runtime *rt = test_join_with(&options);
    float x[N] = {0};
    const int rank = tess_runtime_rank(rt);
    tess_team *stages = NULL;
    tess_work *work = NULL;
    tess_rehearsal rehearsal;
    tess_runtime *dry = open_dry(tess_runtime_team(rt), rank % 2, &rehearsal);
    rehearsal.batch_team = "pair";
    EXPECT_OK(tess_team_split_by(tess_runtime_team(dry), by_half, NULL, "stages", &stages));
    for (int i = 0; i < 2; i++)
        if ((i == 0) == (rank == 2)) {
            EXPECT_OK(tess_all_reduce(tess_runtime_team(dry), x, x, 1, TESS_F32, TESS_SUM, NULL));
        } else {
            EXPECT_OK(rank % 2 == 0 ? tess_send(stages, x, 8, TESS_F32, 1, 0, &work)
                                    : tess_recv(stages, x, 8, TESS_F32, 0, 0, &work));
            EXPECT_OK(tess_work_wait(&work, 0));
        }
    tess_team_destroy(&stages);
    EXPECT_FAILS(compare(tess_runtime_team(rt), dry, &rehearsal), TESS_E_MISMATCH, "team 'stages' or 'world'");
    EXPECT_CONTAINS(tess_error_message(), "rank 0 called send");
    EXPECT_CONTAINS(tess_error_message(), "rank 2 called all_reduce");
    tess_runtime_destroy(&rt);
}

static const test_case cases[] = {
    CASE(equal_rehearsals_agree_and_move_nothing, -1),
    CASE(the_first_line_that_differs_is_shown, 4, 0, TEST_ALONE),
    CASE(a_line_that_is_left_out_is_shown, 4, 0, TEST_ALONE),
    CASE(a_rehearsal_that_ends_early_is_shown, 3, 0, TEST_ALONE),
    CASE(who_has_other_numbers_is_told_in_plain_words, 4, 0, TEST_ALONE),
    CASE(other_numbers_may_be_nobodys_fault, 4, 0, TEST_ALONE),
    CASE(some_ranks_rehearse_without_the_others, 4, 0, TEST_ALONE),
    CASE(teams_are_compared_among_their_members, 4, 0, TEST_ALONE),
    CASE(a_rank_that_stays_away_is_noticed, 4, 0, TEST_ALONE),
    CASE(the_order_of_teams_is_compared, 4, 0, TEST_ALONE),
    CASE(calls_of_a_batch_team_may_depend_on_its_micro_batch, 4, 0, TEST_ALONE),
    CASE(ranks_of_a_batch_team_call_in_one_order, 4, 0, TEST_ALONE),
    CASE(a_message_and_a_call_in_another_order_are_shown, 4, 0, TEST_ALONE),
    CASE(stages_may_differ, 4),
    CASE(ranks_of_a_stage_may_not_differ, 4, 0, TEST_ALONE),
    CASE(stages_call_alike_on_the_world, 4, 0, TEST_ALONE),
    CASE(a_message_of_another_length_is_shown, 4, 0, TEST_ALONE),
    CASE(a_message_that_nobody_sends_is_shown, 4, 0, TEST_ALONE),
    CASE(a_message_that_nobody_receives_is_shown, 4, 0, TEST_ALONE),
};
TEST_MAIN(cases)
