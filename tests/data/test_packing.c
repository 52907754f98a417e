#include "data/packing/packing.h"
#include "support/test.h"

enum { MAX_TOKENS = 400, MAX_DOCUMENTS = 24, PAD = 7 };

/* Token i of all documents is 1000 + i, so its value shows where it came from. */
static int64_t make_documents(const int *sizes, int n, int32_t *tokens, int64_t *starts, int64_t *pairs)
{
    int64_t at = 0;
    for (int d = 0; d < n; d++) {
        starts[d] = at;
        at += sizes[d];
    }
    starts[n] = at;
    for (int64_t i = 0; i < at; i++)
        tokens[i] = (int32_t)(1000 + i);
    return tess_pack_count(starts, n, pairs);
}

static int64_t document_of(const int64_t *starts, int64_t token)
{
    int64_t d = 0;
    while (starts[d + 1] <= token)
        d++;
    return d;
}

static void check(const int *sizes, int n, int64_t seq_len)
{
    int32_t tokens[MAX_TOKENS], ids[MAX_TOKENS], pos[MAX_TOKENS], targets[MAX_TOKENS], ends[MAX_TOKENS];
    int64_t starts[MAX_DOCUMENTS + 1], pairs[MAX_DOCUMENTS + 1];
    int seen[MAX_TOKENS] = {0};
    int64_t n_pairs = make_documents(sizes, n, tokens, starts, pairs), previous = 0;
    tess_documents documents = {.tokens = tokens, .starts = starts, .pairs = pairs, .n = n};
    int64_t n_rows = tess_pack_rows(&documents, seq_len), n_targets = 0;
    EXPECT_INT(n_rows, (n_pairs + seq_len - 1) / seq_len);
    for (int64_t r = 0; r < n_rows; r++) {
        tess_row row = {.ids = ids, .pos = pos, .targets = targets, .ends = ends, .base = 50};
        int64_t n_seqs = tess_pack_row(&documents, r, seq_len, PAD, &row), begin = 0;
        EXPECT_INT(ends[n_seqs - 1], 50 + seq_len);
        for (int64_t s = 0; s < n_seqs; begin = ends[s++] - 50) {
            EXPECT(ends[s] - 50 > begin);
            bool padding = targets[begin] < 0;
            EXPECT(!padding || (s == n_seqs - 1 && r == n_rows - 1));
            for (int64_t i = begin; i < ends[s] - 50; i++) {
                EXPECT_INT(pos[i], i - begin);
                if (padding) {
                    EXPECT_INT(targets[i], -1);
                    EXPECT_INT(ids[i], PAD);
                    continue;
                }
                EXPECT_INT(targets[i], ids[i] + 1);
                EXPECT(targets[i] > previous); /* in order */
                previous = targets[i];
                seen[targets[i] - 1000]++;
                n_targets++;
                EXPECT_INT(document_of(starts, targets[i] - 1000), document_of(starts, ids[begin] - 1000));
            }
        }
    }
    EXPECT_INT(n_targets, n_pairs);
    for (int64_t i = 0; i < starts[n]; i++)
        EXPECT_INT(seen[i], i != starts[document_of(starts, i)]);
}

static void every_token_is_a_target_once_and_no_sequence_crosses_documents(void)
{
    static const int sizes[][6] = {{2, 0, 0, 0, 0, 0}, {1, 2, 1, 0, 3, 1},   {17, 1, 33, 5, 2, 9},
                                   {8, 8, 8, 8, 8, 8}, {9, 9, 9, 9, 9, 9},   {64, 63, 65, 1, 1, 1},
                                   {0, 0, 1, 0, 1, 5}, {100, 3, 0, 7, 2, 31}};
    static const int64_t lengths[] = {1, 2, 3, 7, 8, 16, 31, 64, 200};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (size_t k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++)
            check(sizes[i], 6, lengths[k]);
    }
}

static void a_row_goes_on_where_the_last_one_ended(void)
{
    const int size = 23;
    int32_t tokens[MAX_TOKENS], ids[10], pos[10], targets[10], ends[10];
    int64_t starts[2], pairs[2];
    make_documents(&size, 1, tokens, starts, pairs);
    tess_documents documents = {.tokens = tokens, .starts = starts, .pairs = pairs, .n = 1};
    tess_row row = {.ids = ids, .pos = pos, .targets = targets, .ends = ends};
    int32_t last = 1000;
    for (int64_t r = 0; r < tess_pack_rows(&documents, 10); r++) {
        tess_pack_row(&documents, r, 10, PAD, &row);
        EXPECT_INT(ids[0], last);
        last = targets[9];
    }
    EXPECT_INT(last, -1);
    EXPECT_INT(tess_pack_row(&documents, 99, 10, PAD, &row), 1); /* behind the end: padding */
    EXPECT_INT(targets[0], -1);
}

static void tokens_outside_the_loss_mask_are_no_targets(void)
{
    const int sizes[] = {6, 4};
    const uint8_t loss[] = {0, 0, 0, 1, 1, 1, 1, 0, 1, 0};
    int32_t tokens[MAX_TOKENS], ids[8], pos[8], targets[8], ends[8];
    int64_t starts[3], pairs[3];
    make_documents(sizes, 2, tokens, starts, pairs);
    tess_documents documents = {.tokens = tokens, .loss = loss, .starts = starts, .pairs = pairs, .n = 2};
    tess_row row = {.ids = ids, .pos = pos, .targets = targets, .ends = ends};
    EXPECT_INT(tess_pack_row(&documents, 0, 8, PAD, &row), 2);
    static const int32_t want[] = {-1, -1, 1003, 1004, 1005, -1, 1008, -1};
    EXPECT_SAME(targets, want, 8);
}

static const test_case cases[] = {
    {"every_token_is_a_target_once_and_no_sequence_crosses_documents",
     every_token_is_a_target_once_and_no_sequence_crosses_documents, 0, 0},
    {"a_row_goes_on_where_the_last_one_ended", a_row_goes_on_where_the_last_one_ended, 0, 0},
    {"tokens_outside_the_loss_mask_are_no_targets", tokens_outside_the_loss_mask_are_no_targets, 0, 0},
};
TEST_MAIN(cases)
