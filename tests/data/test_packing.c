/* Packing of documents into rows: every pair once, and the bounds of documents. */
#include "data/packing/packing.h"
#include "support/test.h"

enum { MAX_TOKENS = 400, MAX_DOCUMENTS = 24, PAD = 7 };

/* Token i of all documents is 1000 + i, so its value shows where it came from. */
static int64_t make_documents(const int *sizes, int n, int32_t *tokens, int64_t *starts, int64_t seq_len,
                              int64_t *places)
{
    int64_t at = 0;
    for (int d = 0; d < n; d++) {
        starts[d] = at;
        at += sizes[d];
    }
    starts[n] = at;
    for (int64_t i = 0; i < at; i++)
        tokens[i] = (int32_t)(1000 + i);
    return tess_pack_place(starts, NULL, n, seq_len, places);
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
    int64_t starts[MAX_DOCUMENTS + 1], places[MAX_DOCUMENTS + 1];
    int seen[MAX_TOKENS] = {0};
    int64_t n_pairs = make_documents(sizes, n, tokens, starts, seq_len, places), previous = 0;
    tess_documents documents = {.tokens = tokens, .starts = starts, .places = places, .n = n};
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
                EXPECT(targets[i] > previous); /* ascending */
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
    int64_t starts[2], places[2];
    make_documents(&size, 1, tokens, starts, 10, places);
    tess_documents documents = {.tokens = tokens, .starts = starts, .places = places, .n = 1};
    tess_row row = {.ids = ids, .pos = pos, .targets = targets, .ends = ends};
    int32_t last = 1000;
    for (int64_t r = 0; r < tess_pack_rows(&documents, 10); r++) {
        tess_pack_row(&documents, r, 10, PAD, &row);
        EXPECT_INT(ids[0], last);
        last = targets[9];
    }
    EXPECT_INT(last, -1);
    EXPECT_INT(tess_pack_row(&documents, 99, 10, PAD, &row), 1); /* a row after the end is padding */
    EXPECT_INT(targets[0], -1);
}

/* An example: sequences of 5, 3 and 8 tokens in a row of 16; padded to 8 each, a third of 24 is waste. */
static void packed_sequences_are_found_again_by_their_bounds(void)
{
    const int32_t tokens[] = {1,  2,  3,  4,  5,  0,  10, 11, 12, 0,
                              20, 21, 22, 23, 24, 25, 26, 27, 0}; /* 0: the last target */
    const int64_t starts[] = {0, 6, 10, 19}, padded[] = {0, 8, 16, 24};
    int64_t places[4], n_targets = 0;
    int32_t ids[16], pos[16], targets[16], cu_seqlens[17] = {0};
    EXPECT_INT(tess_pack_place(starts, NULL, 3, 16, places), 16);
    tess_documents documents = {.tokens = tokens, .starts = starts, .places = places, .n = 3};
    EXPECT_INT(tess_pack_rows(&documents, 16), 1);
    tess_row row = {.ids = ids, .pos = pos, .targets = targets, .ends = cu_seqlens + 1};
    EXPECT_INT(tess_pack_row(&documents, 0, 16, PAD, &row), 3);
    EXPECT_SAME(cu_seqlens, ((const int32_t[]){0, 5, 8, 16}), 4);
    EXPECT_SAME(ids + cu_seqlens[1], ((const int32_t[]){10, 11, 12}), 3);
    documents.places = padded;
    for (int64_t r = 0; r < 3; r++) {
        tess_pack_row(&documents, r, 8, PAD, &row);
        for (int i = 0; i < 8; i++)
            n_targets += targets[i] >= 0;
    }
    EXPECT_INT(n_targets, 16); /* 24 without packing */
}

static void tokens_outside_the_loss_mask_are_no_targets(void)
{
    const int sizes[] = {6, 4};
    const uint8_t loss[] = {0, 0, 0, 1, 1, 1, 1, 0, 1, 0};
    int32_t tokens[MAX_TOKENS], ids[8], pos[8], targets[8], ends[8];
    int64_t starts[3], places[3];
    make_documents(sizes, 2, tokens, starts, 8, places);
    tess_documents documents = {.tokens = tokens, .loss = loss, .starts = starts, .places = places, .n = 2};
    tess_row row = {.ids = ids, .pos = pos, .targets = targets, .ends = ends};
    EXPECT_INT(tess_pack_row(&documents, 0, 8, PAD, &row), 2);
    static const int32_t want[] = {-1, -1, 1003, 1004, 1005, -1, 1008, -1};
    EXPECT_SAME(targets, want, 8);
}

/* The expected content of a row: documents by number, the number of their pairs, and where in the document they begin.
 */
typedef struct stretch {
    int row, document, from, length;
} stretch;

static void check_stretches(const int *sizes, const uint8_t *whole, int n, int64_t seq_len, const stretch *want,
                            int n_want, int n_rows)
{
    int32_t tokens[MAX_TOKENS], ids[MAX_TOKENS], pos[MAX_TOKENS], targets[MAX_TOKENS], ends[MAX_TOKENS];
    int64_t starts[MAX_DOCUMENTS + 1], places[MAX_DOCUMENTS + 1];
    int k = 0;
    make_documents(sizes, n, tokens, starts, seq_len, places);
    tess_pack_place(starts, whole, n, seq_len, places);
    tess_documents documents = {.tokens = tokens, .starts = starts, .places = places, .n = n};
    EXPECT_INT(tess_pack_rows(&documents, seq_len), n_rows);
    for (int r = 0; r < n_rows; r++) {
        tess_row row = {.ids = ids, .pos = pos, .targets = targets, .ends = ends};
        int64_t n_seqs = tess_pack_row(&documents, r, seq_len, PAD, &row), begin = 0;
        EXPECT_INT(ends[n_seqs - 1], seq_len);
        for (int64_t s = 0; s < n_seqs; begin = ends[s++]) {
            if (targets[begin] < 0) {
                EXPECT_INT(s, n_seqs - 1); /* only the end of a row is empty */
                for (int64_t i = begin; i < seq_len; i++)
                    EXPECT(ids[i] == PAD && targets[i] == -1 && pos[i] == i - begin);
                continue;
            }
            EXPECT(k < n_want);
            EXPECT_INT(r, want[k].row);
            EXPECT_INT(ends[s] - begin, want[k].length);
            EXPECT_INT(ids[begin], 1000 + starts[want[k].document] + want[k].from);
            EXPECT_INT(targets[ends[s] - 1], 1000 + starts[want[k].document] + want[k].from + want[k].length);
            k++;
        }
    }
    EXPECT_INT(k, n_want);
}

static void a_document_that_may_not_be_split_begins_another_row_or_is_cut_at_its_end(void)
{
    static const uint8_t all[] = {1, 1, 1, 1, 1, 1, 1, 1}, some[] = {0, 1, 0, 1, 0, 0, 0, 0};
    /* 5 and 3 pairs fill a row; 4 leave no room for 6; 0 and 0 pairs are nothing; 8 are a row; 19 are cut. */
    static const int sizes[] = {6, 4, 5, 7, 1, 0, 9, 20};
    static const stretch rows[] = {{0, 0, 0, 5}, {0, 1, 0, 3}, {1, 2, 0, 4}, {2, 3, 0, 6}, {3, 6, 0, 8}, {4, 7, 0, 8}};
    check_stretches(sizes, all, 8, 8, rows, 6, 5);
    /* Texts flow around what may not be split: 12 pairs, then 5 that do not fit in the 4 left, then 6, then 3 and 1. */
    static const int mixed[] = {13, 6, 7, 4, 2};
    static const stretch flow[] = {{0, 0, 0, 8}, {1, 0, 8, 4}, {2, 1, 0, 5}, {2, 2, 0, 3},
                                   {3, 2, 3, 3}, {3, 3, 0, 3}, {3, 4, 0, 1}};
    check_stretches(mixed, some, 5, 8, flow, 7, 4);
    static const int longer[] = {30, 3, 30};
    static const stretch cut[] = {{0, 0, 0, 4}, {1, 1, 0, 2}, {2, 2, 0, 4}};
    check_stretches(longer, all, 3, 4, cut, 3, 3);
}

static const test_case cases[] = {
    CASE(a_document_that_may_not_be_split_begins_another_row_or_is_cut_at_its_end),
    CASE(every_token_is_a_target_once_and_no_sequence_crosses_documents),
    CASE(a_row_goes_on_where_the_last_one_ended),
    CASE(packed_sequences_are_found_again_by_their_bounds),
    CASE(tokens_outside_the_loss_mask_are_no_targets),
};
TEST_MAIN(cases)
