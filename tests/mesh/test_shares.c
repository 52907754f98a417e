/* Shares of micro-batches and rows: equal ones against the formulas, unequal ones against plain loops. */
#include "mesh/shares.h"
#include "support/test.h"

enum { MOST_RANKS = 8, MOST = 200 };

/* Each number and each row belongs to one rank, in order, and the counts add up to the whole. */
static void check_whole(const tess_shares *shares)
{
    for (int64_t n = 0; n < MOST; n++) {
        int64_t sum = 0, row = 0, most = 0;
        for (int r = 0; r < shares->n; r++) {
            int64_t begin, count, taken = tess_shares_count(shares, r, n), before = -1;
            sum += taken;
            for (int64_t k = 0; k < taken; k++) {
                const int64_t index = tess_shares_index(shares, r, k);
                EXPECT(index > before && index < n);
                EXPECT_INT(tess_shares_taker(shares, index), r);
                EXPECT_INT(tess_shares_order(shares, index), k);
                most = index / shares->total + 1 > most ? index / shares->total + 1 : most;
                before = index;
            }
            EXPECT(tess_shares_index(shares, r, taken) >= n); /* the next one is not of this step */
            tess_shares_rows(shares, n, r, &begin, &count);
            EXPECT_INT(begin, row);
            EXPECT(count >= 0);
            row = begin + count;
        }
        EXPECT_INT(sum, n);
        EXPECT_INT(row, n);
        EXPECT_INT(tess_shares_rounds(shares, n), most);
    }
}

static void equal_shares_are_the_formulas_of_one_layout(void)
{
    static const int ranks[] = {1, 2, 3, 4, 8};
    for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
        const int W = ranks[i];
        const tess_shares shares = tess_shares_equal(W);
        check_whole(&shares);
        for (int r = 0; r < W; r++)
            for (int64_t n = 0; n < MOST; n++) {
                int64_t begin, count, want_begin, want_count;
                tess_shares_rows(&shares, n, r, &begin, &count);
                tess_shard_rows(n, W, r, &want_begin, &want_count);
                EXPECT_INT(begin, want_begin);
                EXPECT_INT(count, want_count);
                EXPECT_INT(tess_shares_index(&shares, r, n), n * W + r);
                EXPECT_INT(tess_shares_rounds(&shares, n), (n + W - 1) / W);
            }
    }
}

/* Also weights and sizes that divide nothing, on 1, 2, 3, 4 and 8 ranks. */
static void unequal_shares_cover_each_index_and_each_row_once(void)
{
    static const int weights[][MOST_RANKS] = {{5},
                                              {3, 1},
                                              {1, 3},
                                              {7, 1, 3},
                                              {2, 2, 1},
                                              {8, 4, 2, 1},
                                              {1, 1, 1, 13},
                                              {1, 2, 3, 4, 5, 6, 7, 8},
                                              {11, 1, 1, 1, 1, 1, 1, 1}};
    for (size_t i = 0; i < sizeof(weights) / sizeof(weights[0]); i++) {
        int own[MOST_RANKS], n = 0;
        tess_shares shares;
        while (n < MOST_RANKS && weights[i][n] > 0) {
            own[n] = weights[i][n];
            n++;
        }
        EXPECT_OK(tess_shares_by_weight(own, n, &shares));
        check_whole(&shares);
    }
}

/* A rank of weight w has what w equal ranks have together, so the tree over a step's micro-batches and the cuts of
 * rows are those of W equal ranks. */
static void a_weight_stands_for_that_number_of_equal_ranks(void)
{
    int weights[] = {3, 1};
    tess_shares shares;
    EXPECT_OK(tess_shares_by_weight(weights, 2, &shares));
    const tess_shares four = tess_shares_equal(4);
    EXPECT_INT(shares.total, 4);
    for (int64_t index = 0; index < MOST; index++)
        EXPECT_INT(tess_shares_taker(&shares, index), tess_shares_taker(&four, index) == 3);
    for (int64_t n = 0; n < MOST; n++) {
        int64_t begin, count, last;
        tess_shares_rows(&four, n, 3, &last, &count);
        tess_shares_rows(&shares, n, 0, &begin, &count);
        EXPECT_INT(count, last);
    }
    /* 10 micro-batches: 8 and 2; with 9 the rank of weight 1 has none in the last round. */
    EXPECT_INT(tess_shares_count(&shares, 0, 10), 8);
    EXPECT_INT(tess_shares_count(&shares, 1, 10), 2);
    EXPECT_INT(tess_shares_count(&shares, 0, 9), 7);
    EXPECT_INT(tess_shares_index(&shares, 0, 3), 4);
    EXPECT_INT(tess_shares_index(&shares, 1, 2), 11);
    EXPECT_INT(tess_shares_rounds(&shares, 9), 3);
}

static void weights_with_a_common_divisor_are_smaller_ones(void)
{
    int twos[] = {2, 2, 2}, six[] = {6, 2};
    tess_shares shares;
    EXPECT_OK(tess_shares_by_weight(twos, 3, &shares));
    EXPECT(shares.weights == NULL && shares.total == 3);
    EXPECT_OK(tess_shares_by_weight(six, 2, &shares));
    EXPECT(six[0] == 3 && six[1] == 1 && shares.total == 4);
}

static void impossible_weights_are_refused(void)
{
    tess_shares shares;
    EXPECT_FAILS(tess_shares_by_weight((int[]){1}, 0, &shares), TESS_E_INVALID, "shares of 0 ranks");
    EXPECT_FAILS(tess_shares_by_weight((int[]){1, 0}, 2, &shares), TESS_E_INVALID, "rank 1 has the weight 0");
    EXPECT_FAILS(tess_shares_by_weight((int[]){INT32_MAX, 1}, 2, &shares), TESS_E_INVALID,
                 "up to rank 1 sum to 2147483648");
}

static const test_case cases[] = {
    CASE(equal_shares_are_the_formulas_of_one_layout),
    CASE(unequal_shares_cover_each_index_and_each_row_once),
    CASE(a_weight_stands_for_that_number_of_equal_ranks),
    CASE(weights_with_a_common_divisor_are_smaller_ones),
    CASE(impossible_weights_are_refused),
};
TEST_MAIN(cases)
