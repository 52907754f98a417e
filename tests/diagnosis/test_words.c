/* Sentences with fields, requests as text, majorities, and chains of waits and of blame. */
#include "support/test.h"
#include "diagnosis/ends.h"
#include "diagnosis/majority.h"
#include "diagnosis/missed.h"
#include "diagnosis/request.h"
#include "diagnosis/sentence.h"

static void expect_filled(const char *sentence, int n, const char *seconds, const char *want)
{
    static const int ranks[] = {1, 2, 3, 7};
    char text[128];
    tess_fields fields = {.n = 0};
    tess_sentence who = tess_fields_add(&fields, "who", n), words = tess_sentence_begin(text, sizeof(text));
    tess_sentence_ranks(&who, ranks, n);
    tess_fields_put(&fields, "s", 1, "%s", seconds);
    tess_sentence_fill(&words, sentence, &fields);
    EXPECT_TEXT(text, want);
}

static void sentences_take_their_fields(void)
{
    static const char sentence[] = "{who} wait{n_who:s|} for {n_who:it|them}[ for {s} s[ in {op}]].";
    expect_filled(sentence, 1, "2", "rank 1 waits for it for 2 s.");
    expect_filled(sentence, 4, "2", "ranks 1-3 7 wait for them for 2 s.");
    expect_filled(sentence, 1, "", "rank 1 waits for it.");
    expect_filled("{w}{whom}[{op}{who}]none", 1, "2", "none"); /* no prefix of a name matches */
}

static void what_does_not_fit_is_cut(void)
{
    char text[8];
    tess_fields fields = {.n = 0};
    tess_sentence words = tess_sentence_begin(text, sizeof(text));
    tess_fields_put(&fields, "a", 1, "%s", "abcdefghijk");
    tess_sentence_fill(&words, "{a}[b{c}]{a}", &fields);
    EXPECT_TEXT(text, "abcdefg");
}

static void counts_are_of_elements_or_of_bytes(void)
{
    char text[128];
    const tess_history history = {.world = 1};
    tess_record record = {.op = TESS_TRACE_REDUCE, .sequence = 3, .count = 7, .dtype = TESS_F32, .root = 1};
    EXPECT_TEXT(tess_request_format(&history, &record, text, sizeof(text)), "reduce #3: 7 float32, root rank 1");
    record = (tess_record){.op = TESS_TRACE_SHARED_FREE, .sequence = 4, .count = 4096, .root = -1};
    EXPECT_TEXT(tess_request_format(&history, &record, text, sizeof(text)), "shared_free #4: 4096 bytes");
}

static void blame_ends_at_a_rank_that_blames_none_or_at_a_circle(void)
{
    static const int blames[] = {-1, 0, 1, 5, 3, 6, 5, 7};
    static const int ends[] = {0, 0, 0, 5, 5, 5, 6, 7};
    tess_end all[8];
    for (int r = 0; r < 8; r++)
        all[r] = (tess_end){.blames = blames[r]};
    for (int r = 0; r < 8; r++)
        EXPECT_INT(tess_ends_cause(all, 8, r), ends[r]);
}

static bool same_number(const void *numbers, int a, int b)
{
    const int *number = numbers;
    return number[a] >= 0 && number[a] == number[b];
}

static void the_largest_camp_is_found_and_ties_are_reported(void)
{
    tess_majority majority = tess_majority_find(same_number, (int[]){-1, 4, 5, 5, 4, 5}, 6);
    EXPECT(majority.first == 2 && majority.n == 3 && !majority.tie);
    majority = tess_majority_find(same_number, (int[]){4, 5, 5, 4, 6}, 5);
    EXPECT(majority.first == 0 && majority.n == 2 && majority.tie);
    majority = tess_majority_find(same_number, (int[]){-1, -1}, 2);
    EXPECT(majority.first == -1 && majority.n == 0 && !majority.tie);
}

static void chains_end_at_who_waits_for_nobody(void)
{
    static const uint64_t for_1[] = {2, 0}, for_64[] = {0, 1};
    tess_wait waits[65] = {[0] = {.since_ns = 10, .missing = for_1},
                           [1] = {.since_ns = 20, .missing = for_64},
                           [3] = {.since_ns = 15, .missing = for_64}};
    tess_missed missed[65];
    bool reached[65];
    EXPECT_INT(tess_missed_find(waits, 65, missed), 1);
    EXPECT(missed[0].rank == 64 && missed[0].waiter == 3 && missed[0].since_ns == 15 && missed[0].n_waiting == 2);
    EXPECT_INT(tess_missed_count(waits, 65, 64, reached), 3);
    EXPECT_INT(tess_missed_most(missed, 0), -1);
    waits[64] = (tess_wait){.since_ns = 30, .missing = for_1}; /* a circle of 1 and 64 */
    EXPECT_INT(tess_missed_find(waits, 65, missed), 1);
    EXPECT(missed[0].rank == 1 && missed[0].waiter == 0 && missed[0].n_waiting == 2);
    EXPECT_INT(tess_missed_find(waits, 1, missed), 0); /* a rank outside is not waited for */
}

static const test_case cases[] = {
    CASE(sentences_take_their_fields),
    CASE(what_does_not_fit_is_cut),
    CASE(the_largest_camp_is_found_and_ties_are_reported),
    CASE(counts_are_of_elements_or_of_bytes),
    CASE(blame_ends_at_a_rank_that_blames_none_or_at_a_circle),
    CASE(chains_end_at_who_waits_for_nobody),
};

TEST_MAIN(cases)
