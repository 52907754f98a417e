/* The progress of ranks: who is at which step, and whether that looks uneven. */
#include "support/test.h"
#include "diagnosis/progress.h"

static bool odd[8];
static char text[512];

static bool judge(const tess_progress_of *ranks, int n)
{
    return tess_progress_mismatch(ranks, n, odd, text, sizeof(text));
}

static void ranks_at_one_place_are_well(void)
{
    static const tess_progress_of same[] = {{12, 3}, {12, 3}, {12, 3}}, unknown[] = {{12, 3}, {-1, -1}, {12, -1}};
    EXPECT(!judge(same, 3));
    EXPECT_TEXT(text, "");
    EXPECT(!judge(unknown, 3));
    EXPECT(!odd[0] && !odd[1] && !odd[2]);
}

static void a_rank_with_a_batch_less_is_named(void)
{
    static const tess_progress_of ranks[] = {{12, -1}, {12, -1}, {11, -1}, {12, -1}};
    EXPECT(judge(ranks, 4));
    EXPECT(!odd[0] && !odd[1] && odd[2] && !odd[3]);
    EXPECT_TEXT(text, "rank 2 is at step 11, the others at step 12: it has had one batch less: give all ranks the same "
                      "number of batches");
}

static void micro_batches_count_within_a_step(void)
{
    static const tess_progress_of ranks[] = {{12, 8}, {12, 6}, {12, 8}, {12, 8}};
    EXPECT(judge(ranks, 4));
    EXPECT(odd[1]);
    EXPECT_TEXT(text, "rank 1 is at step 12, micro-batch 6, the others at step 12, micro-batch 8: it has had 2 "
                      "micro-batches less: give all ranks the same number of batches");
}

static void a_rank_that_is_through_is_named(void)
{
    static const tess_progress_of ranks[] = {{99, -1, true}, {100, -1}, {100, -1}};
    EXPECT(judge(ranks, 3));
    EXPECT(odd[0] && !odd[1] && !odd[2]);
    EXPECT_CONTAINS(text, "rank 0 is through after step 99, the others at step 100: its data ended before the others'");
}

static void two_ranks_are_a_tie(void)
{
    static const tess_progress_of ranks[] = {{11, -1}, {12, -1}};
    EXPECT(judge(ranks, 2));
    EXPECT(!odd[0] && !odd[1]);
    EXPECT_TEXT(text, "rank 0 is at step 11, rank 1 is at step 12: they had different numbers of batches, and no "
                      "majority says how many are right");
}

static void several_odd_ranks_are_counted(void)
{
    static const tess_progress_of ranks[] = {{7, -1}, {12, -1}, {12, -1}, {12, -1}, {13, -1}};
    EXPECT(judge(ranks, 5));
    EXPECT(odd[0] && !odd[1] && odd[4]);
    EXPECT_CONTAINS(text,
                    "rank 0 is at step 7 (and 1 more are elsewhere), the others at step 12: it has had 5 batches less");
}

static void little_room_cuts_the_sentence(void)
{
    static const tess_progress_of ranks[] = {{7, -1}, {12, -1}, {12, -1}, {12, 4}, {13, 5}, {1, 1, true}};
    for (size_t size = 1; size < 200; size++) {
        char cut[200];
        memset(cut, 'x', sizeof(cut));
        tess_progress_mismatch(ranks, 6, odd, cut, size);
        tess_progress_mismatch(ranks, 2, odd, cut, size);
        EXPECT(memchr(cut, '\0', size) != NULL);
        for (size_t i = size; i < sizeof(cut); i++)
            EXPECT(cut[i] == 'x');
    }
}

static const test_case cases[] = {
    CASE(ranks_at_one_place_are_well),
    CASE(a_rank_with_a_batch_less_is_named),
    CASE(micro_batches_count_within_a_step),
    CASE(a_rank_that_is_through_is_named),
    CASE(two_ranks_are_a_tie),
    CASE(several_odd_ranks_are_counted),
    CASE(little_room_cuts_the_sentence),
};

TEST_MAIN(cases)
