/* Rehearsals of collectives: a difference is found and named before any data moves. */
#include "comm/rehearsal/rehearsal.h"

#include "comm/comm_impl.h"
#include "support/join.h"

enum { N = 64, LINES = 40 };

static const tess_runtime_options options = {.comm_timeout_s = 600};

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
    float x = 1;
    tess_work *work = NULL;
    void *window;
    EXPECT_OK(tess_rehearsal_begin(tess_runtime_team(rt)));
    rehearse_sums(team, -1, -1, -1);
    EXPECT_OK(tess_barrier(team, &work));
    EXPECT(tess_work_done(work));
    EXPECT_OK(tess_work_wait(&work, 0));
    EXPECT_OK(tess_window_alloc(team, TESS_POOL_MISC, 4096, "window", &window));
    EXPECT_OK(tess_rehearsal_count(rt, "a step's micro-batches", 4));
    EXPECT_OK(tess_rehearsal_end(rt));
    tess_window_free(team, window);
    EXPECT_OK(tess_all_reduce(team, &x, &x, 1, TESS_F32, TESS_SUM, NULL));
    EXPECT(x == (float)tess_team_size(team));
    tess_runtime_destroy(&rt);
}

static void the_first_line_that_differs_is_shown(void)
{
    tess_runtime *rt = test_join_with(&options);
    EXPECT_OK(tess_rehearsal_begin(tess_runtime_team(rt)));
    rehearse_sums(tess_runtime_team(rt), 2, -1, 17);
    EXPECT_FAILS(tess_rehearsal_end(rt), TESS_E_MISMATCH,
                 "the odd one out: rank 2: ranks 0 1 3 called all_reduce #17 of team 'world' for 'sum 17': 63 float32");
    EXPECT_FAILS(tess_barrier(tess_runtime_team(rt), NULL), TESS_E_MISMATCH, "what ranks plan to call differs");
    tess_runtime_destroy(&rt);
}

static void a_line_that_is_left_out_is_shown(void)
{
    tess_runtime *rt = test_join_with(&options);
    EXPECT_OK(tess_rehearsal_begin(tess_runtime_team(rt)));
    rehearse_sums(tess_runtime_team(rt), 1, 5, -1);
    EXPECT_FAILS(tess_rehearsal_end(rt), TESS_E_MISMATCH, "rank 1 called all_reduce #5 of team 'world' for 'sum 6'");
    tess_runtime_destroy(&rt);
}

static void a_rehearsal_that_ends_early_is_shown(void)
{
    tess_runtime *rt = test_join_with(&options);
    EXPECT_OK(tess_rehearsal_begin(tess_runtime_team(rt)));
    rehearse_sums(tess_runtime_team(rt), 0, LINES - 1, -1);
    EXPECT_FAILS(tess_rehearsal_end(rt), TESS_E_MISMATCH,
                 "rank 0 planned nothing more; ranks 1 2 called all_reduce #39 of team 'world'");
    tess_runtime_destroy(&rt);
}

/* Each rank rehearses the calls of `n` micro-batches. */
static void expect_counts(tess_runtime *rt, int64_t n, const char *needle)
{
    EXPECT_OK(tess_rehearsal_begin(tess_runtime_team(rt)));
    EXPECT_OK(tess_rehearsal_count(rt, "a step's micro-batches", n));
    rehearse_sums(tess_runtime_team(rt), n == 3 ? tess_runtime_rank(rt) : -1, 7, -1);
    EXPECT_FAILS(tess_rehearsal_end(rt), TESS_E_MISMATCH, needle);
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

/* Shards of different teams differ in size; those of one team may not. */
static void teams_are_compared_among_their_members(void)
{
    tess_runtime *rt = test_join_with(&options);
    tess_team *team = NULL;
    float x[N] = {0};
    int rank = tess_runtime_rank(rt);
    EXPECT_OK(tess_team_split(tess_runtime_team(rt), rank % 2, rank, "pair", &team));
    for (int odd = 0; odd < 2; odd++) {
        size_t n = (size_t)(10 + rank % 2 + (odd != 0 && rank == 3 ? 1 : 0));
        EXPECT_OK(tess_rehearsal_begin(tess_runtime_team(rt)));
        EXPECT_OK(tess_all_reduce(team, x, x, n, TESS_F32, TESS_SUM, NULL));
        if (odd != 0 && rank % 2 == 1)
            EXPECT_FAILS(tess_rehearsal_end(rt), TESS_E_MISMATCH, "team 'pair': ranks disagree, a tie: rank 1 called");
        else
            EXPECT_OK(tess_rehearsal_end(rt));
    }
    tess_team_destroy(&team);
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
        EXPECT_OK(tess_rehearsal_begin(role));
        EXPECT_OK(tess_all_reduce(role, x, x, odd != 0 && rank == 1 ? 2 : 1, TESS_F32, TESS_SUM, NULL));
        if (odd != 0)
            EXPECT_FAILS(tess_rehearsal_end(rt), TESS_E_MISMATCH, "team 'role': ranks disagree, a tie: rank 0 called");
        else
            EXPECT_OK(tess_rehearsal_end(rt));
    }
    EXPECT_OK(tess_barrier(tess_runtime_team(rt), NULL));
    tess_team_destroy(&role);
    tess_runtime_destroy(&rt);
}

/* Two stages of two ranks: each stage has calls of its own, and messages lead from one to the other. */
typedef enum planted { NOTHING, STAGE_SUM, WORLD_SUM, LONGER, UNSENT, UNRECEIVED } planted;

static void rehearse_stages(tess_runtime *rt, tess_team *stage, tess_team *pair, planted odd)
{
    float x[N] = {0};
    int rank = tess_runtime_rank(rt), first = rank / 2 == 0, here = rank == 3;
    tess_work *work = NULL;
    EXPECT_OK(tess_rehearsal_begin(tess_runtime_team(rt)));
    tess_rehearsal_group(rt, rank / 2);
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
    EXPECT_OK(tess_all_reduce(tess_runtime_team(rt), x, x, odd == WORLD_SUM && here ? 2 : 1, TESS_F32, TESS_SUM, NULL));
}

static void stages_rehearse_calls_of_their_own(planted odd, const char *needle)
{
    tess_runtime *rt = test_join_with(&options);
    tess_team *stage = NULL, *pair = NULL;
    int rank = tess_runtime_rank(rt);
    EXPECT_OK(tess_team_split(tess_runtime_team(rt), rank / 2, rank, "stage", &stage));
    EXPECT_OK(tess_team_split(tess_runtime_team(rt), rank % 2, rank, "pp", &pair));
    rehearse_stages(rt, stage, pair, odd);
    bool concerned = odd == STAGE_SUM ? rank / 2 == 1 : odd != LONGER || rank % 2 == 1;
    tess_status status = tess_rehearsal_end(rt);
    if (odd == NOTHING) {
        EXPECT_OK(status);
    } else if (concerned) {
        EXPECT(status == TESS_E_MISMATCH);
        EXPECT_CONTAINS(tess_error_message(), needle);
    }
    tess_team_destroy(&pair);
    tess_team_destroy(&stage);
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

static const test_case cases[] = {
    CASE(equal_rehearsals_agree_and_move_nothing, -1),
    CASE(the_first_line_that_differs_is_shown, 4, 0, TEST_ALONE),
    CASE(a_line_that_is_left_out_is_shown, 4, 0, TEST_ALONE),
    CASE(a_rehearsal_that_ends_early_is_shown, 3, 0, TEST_ALONE),
    CASE(who_has_other_numbers_is_told_in_plain_words, 4, 0, TEST_ALONE),
    CASE(other_numbers_may_be_nobodys_fault, 4, 0, TEST_ALONE),
    CASE(some_ranks_rehearse_without_the_others, 4, 0, TEST_ALONE),
    CASE(teams_are_compared_among_their_members, 4, 0, TEST_ALONE),
    CASE(stages_may_differ, 4),
    CASE(ranks_of_a_stage_may_not_differ, 4, 0, TEST_ALONE),
    CASE(stages_call_alike_on_the_world, 4, 0, TEST_ALONE),
    CASE(a_message_of_another_length_is_shown, 4, 0, TEST_ALONE),
    CASE(a_message_that_nobody_sends_is_shown, 4, 0, TEST_ALONE),
    CASE(a_message_that_nobody_receives_is_shown, 4, 0, TEST_ALONE),
};
TEST_MAIN(cases)
