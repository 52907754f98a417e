/* Packing and balancing: against a known example, brute force and bounds. */
#include "rl/algo/rl_balance.h"

#include "base/core/rng.h"
#include "support/test.h"

static void the_documents_items_give_19_and_18(void)
{
    /* 10, 5, 8, 3, 7, 4 on 2: 19 and 18, which is the best there is. */
    const int64_t cost[] = {10, 5, 8, 3, 7, 4};
    const int32_t lpt_want[] = {0, 0, 1, 1, 1, 0};
    int32_t bin[6];
    int64_t total[2];
    EXPECT_OK(tess_balance_lpt(test_mem(), cost, 6, 2, bin, total));
    EXPECT_SAME(bin, lpt_want, 6);
    EXPECT_INT(total[0], 19);
    EXPECT_INT(total[1], 18);
    EXPECT_OK(tess_balance_differencing(test_mem(), cost, 6, 2, bin, total));
    EXPECT_INT(total[0], 19);
    EXPECT_INT(total[1], 18);
}

static int64_t largest(const int64_t *total, int n)
{
    int64_t top = 0;
    for (int b = 0; b < n; b++)
        top = total[b] > top ? total[b] : top;
    return top;
}

static int64_t best_of(const int64_t *cost, int n, int n_bins)
{
    int64_t best = INT64_MAX;
    for (int64_t code = 0, end = n_bins == 2 ? 1 << n : 59049; code < end; code++) { /* 3^10 */
        int64_t total[3] = {0}, left = code;
        for (int i = 0; i < n; i++, left /= n_bins)
            total[left % n_bins] += cost[i];
        best = largest(total, n_bins) < best ? largest(total, n_bins) : best;
    }
    return best;
}

static void balances_are_near_the_best_of_all(void)
{
    int exact = 0;
    for (uint64_t trial = 0; trial < 40; trial++) {
        int64_t cost[10], lpt[3], kk[3];
        int32_t bin[10];
        int n_bins = 2 + (int)(trial % 2);
        for (uint64_t i = 0; i < 10; i++)
            cost[i] = 1 + (int64_t)(tess_rng_u64(1, TESS_RNG_TEST, trial, i) % 100);
        EXPECT_OK(tess_balance_lpt(test_mem(), cost, 10, n_bins, bin, lpt));
        EXPECT_OK(tess_balance_differencing(test_mem(), cost, 10, n_bins, bin, kk));
        int64_t best = best_of(cost, 10, n_bins);
        EXPECT(largest(lpt, n_bins) >= best && largest(kk, n_bins) >= best);
        EXPECT(3 * n_bins * largest(lpt, n_bins) <= (4 * n_bins - 1) * best); /* Graham's bound */
        EXPECT(6 * largest(kk, n_bins) <= 7 * best);
        exact += largest(kk, n_bins) == best;
    }
    EXPECT(exact >= 10);
}

static void differencing_levels_many_items(void)
{
    enum { N = 2000, BINS = 16 };
    static int64_t cost[N];
    static int32_t bin[N], again[N];
    int64_t lpt[BINS], kk[BINS], sum = 0, added = 0, low = INT64_MAX;
    for (uint64_t i = 0; i < N; i++) {
        cost[i] = (int64_t)(tess_rng_u64(2, TESS_RNG_TEST, 0, i) % 100000);
        sum += cost[i];
    }
    EXPECT_OK(tess_balance_lpt(test_mem(), cost, N, BINS, bin, lpt));
    EXPECT_OK(tess_balance_differencing(test_mem(), cost, N, BINS, bin, kk));
    EXPECT_OK(tess_balance_differencing(test_mem(), cost, N, BINS, again, NULL));
    EXPECT_SAME(again, bin, N);
    for (int b = 0; b < BINS; b++) {
        added += kk[b];
        low = kk[b] < low ? kk[b] : low;
    }
    EXPECT(added == sum);
    EXPECT(largest(kk, BINS) - low <= 2); /* differencing leaves next to nothing */
    EXPECT(largest(kk, BINS) <= largest(lpt, BINS));
}

static void one_bin_more_bins_than_items_and_none(void)
{
    const int64_t cost[] = {5, 5, 5}, negative[] = {1, -1};
    int32_t bin[3];
    int64_t total[5];
    EXPECT_OK(tess_balance_lpt(test_mem(), cost, 3, 1, bin, total));
    EXPECT(total[0] == 15 && bin[2] == 0);
    EXPECT_OK(tess_balance_differencing(test_mem(), cost, 3, 1, bin, total));
    EXPECT(total[0] == 15 && bin[2] == 0);
    EXPECT_OK(tess_balance_differencing(test_mem(), cost, 3, 5, bin, total));
    EXPECT(bin[0] != bin[1] && bin[1] != bin[2] && bin[0] != bin[2] && largest(total, 5) == 5);
    EXPECT_OK(tess_balance_lpt(test_mem(), cost, 3, 5, bin, total));
    EXPECT(bin[0] == 0 && bin[1] == 1 && bin[2] == 2 && total[4] == 0);
    EXPECT_OK(tess_balance_differencing(test_mem(), cost, 0, 2, bin, total));
    EXPECT(total[0] == 0 && total[1] == 0);
    EXPECT_FAILS(tess_balance_lpt(test_mem(), cost, 3, 0, bin, total), TESS_E_INVALID, "3 items to 0 bins");
    EXPECT_FAILS(tess_balance_differencing(test_mem(), negative, 2, 2, bin, total), TESS_E_INVALID, "item 1 costs -1");
}

/* All below max_tokens, pairs together, and the dearest bin is no dearer than first fit's. */
static void balanced_bins_hold_no_more_and_spread_less(void)
{
    static const tess_balance_fn balances[] = {tess_balance_lpt, tess_balance_differencing};
    enum { N = 60, MOST = 1000 };
    for (uint64_t trial = 0; trial < 40; trial++) {
        const int together = 1 + (int)(trial % 2);
        int64_t length[N], cost[N], spread[3], total[3][N] = {{0}}, filled[N] = {0};
        int32_t bin[N], n_bins[3];
        for (uint64_t i = 0; i < N; i++) {
            length[i] = 1 + (int64_t)(tess_rng_u64(3, TESS_RNG_TEST, trial, i) % 400);
            cost[i] = tess_sequence_cost(length[i], 600);
        }
        for (int b = 0; b < 3; b++) {
            if (b == 0)
                EXPECT_OK(tess_pack_first_fit(length, N, MOST, together, bin, &n_bins[b]));
            else
                EXPECT_OK(
                    tess_pack_balanced(test_mem(), balances[b - 1], length, cost, N, MOST, together, bin, &n_bins[b]));
            memset(filled, 0, sizeof(filled));
            for (int i = 0; i < N; i++) {
                EXPECT(bin[i] >= 0 && bin[i] < n_bins[b]);
                filled[bin[i]] += length[i];
                total[b][bin[i]] += cost[i];
                EXPECT(together == 1 || bin[i] == bin[i ^ 1]);
            }
            EXPECT(largest(filled, n_bins[b]) <= MOST);
            int64_t low = INT64_MAX;
            for (int k = 0; k < n_bins[b]; k++)
                low = total[b][k] < low ? total[b][k] : low;
            spread[b] = largest(total[b], n_bins[b]) - low;
            EXPECT(b == 0 || (n_bins[b] >= n_bins[0] && n_bins[b] <= n_bins[0] + 3));
            EXPECT(b == 0 || spread[b] < spread[0]);
        }
    }
    const int64_t full[] = {10, 10, 10};
    int32_t bin[3], n_bins;
    EXPECT_OK(tess_pack_balanced(test_mem(), tess_balance_lpt, full, full, 3, 10, 1, bin, &n_bins));
    EXPECT(n_bins == 3 && bin[0] == 0 && bin[1] == 1 && bin[2] == 2);
    EXPECT_OK(tess_pack_balanced(test_mem(), tess_balance_lpt, full, full, 0, 10, 1, bin, &n_bins));
    EXPECT_INT(n_bins, 0);
    EXPECT_FAILS(tess_pack_balanced(test_mem(), tess_balance_lpt, full, full, 3, 9, 1, bin, &n_bins), TESS_E_INVALID,
                 "sample 0 has 10 tokens");
}

static void first_fit_takes_the_first_bin_with_room(void)
{
    const int64_t lengths[] = {6, 5, 4, 3, 5, 2, 10, 0};
    const int32_t want[] = {0, 1, 0, 1, 2, 1, 3, 0};
    int32_t bin[8], n_bins;
    EXPECT_OK(tess_pack_first_fit(lengths, 8, 10, 1, bin, &n_bins));
    EXPECT_SAME(bin, want, 8);
    EXPECT_INT(n_bins, 4);
    const int32_t pairs_want[] = {0, 0, 1, 1, 1, 1};
    EXPECT_OK(tess_pack_first_fit(lengths, 6, 14, 2, bin, &n_bins));
    EXPECT_SAME(bin, pairs_want, 6);
    EXPECT_INT(n_bins, 2);
    EXPECT_OK(tess_pack_first_fit(lengths, 0, 10, 1, bin, &n_bins));
    EXPECT_INT(n_bins, 0);
    EXPECT_FAILS(tess_pack_first_fit(lengths, 8, 9, 1, bin, &n_bins), TESS_E_INVALID, "sample 6 has 10 tokens");
    EXPECT_FAILS(tess_pack_first_fit(lengths, 8, 10, 2, bin, &n_bins), TESS_E_INVALID, "sample 1 with its pair has 11");
    EXPECT_FAILS(tess_pack_first_fit(lengths, 7, 99, 2, bin, &n_bins), TESS_E_INVALID, "7 samples do not divide");
    EXPECT_FAILS(tess_pack_first_fit((const int64_t[]){-1}, 1, 9, 1, bin, &n_bins), TESS_E_INVALID, "-1 tokens");
}

/* First fit as its definition says, with a list of bins. */
static void first_fit_is_its_definition(void)
{
    enum { N = 500, MOST = 1000 };
    static int64_t lengths[N], used[N];
    static int32_t bin[N], want[N];
    int32_t n_bins, n_want = 0;
    for (uint64_t i = 0; i < N; i++)
        lengths[i] = (int64_t)(tess_rng_u64(3, TESS_RNG_TEST, 0, i) % MOST) + 1;
    for (int i = 0; i < N; i += 2) {
        int64_t size = lengths[i] + lengths[i + 1];
        int32_t b = 0;
        while (used[b] + size > 2 * MOST)
            b++;
        used[b] += size;
        want[i] = want[i + 1] = b;
        n_want = b + 1 > n_want ? b + 1 : n_want;
    }
    EXPECT_OK(tess_pack_first_fit(lengths, N, 2 * MOST, 2, bin, &n_bins));
    EXPECT_SAME(bin, want, N);
    EXPECT_INT(n_bins, n_want);
}

static void expensive_micro_batches_come_first(void)
{
    const int64_t cost[] = {1, 9, 4, 3, 9, 1};
    int32_t bin[] = {0, 1, 2, 0, 3, 2}; /* sums 4, 9, 5, 9: the second 9 stays behind the first */
    const int32_t want[] = {3, 0, 2, 3, 1, 2};
    EXPECT_OK(tess_pack_by_cost(test_mem(), cost, 6, bin, 4));
    EXPECT_SAME(bin, want, 6);
    EXPECT_OK(tess_pack_by_cost(test_mem(), cost, 0, bin, 0));
    EXPECT(tess_sequence_cost(1000, 6 * 4096) == 1000 * 24576 + 1000 * 1000);
}

static const test_case cases[] = {
    CASE(the_documents_items_give_19_and_18),      CASE(balances_are_near_the_best_of_all),
    CASE(differencing_levels_many_items),          CASE(one_bin_more_bins_than_items_and_none),
    CASE(first_fit_takes_the_first_bin_with_room), CASE(first_fit_is_its_definition),
    CASE(expensive_micro_batches_come_first),      CASE(balanced_bins_hold_no_more_and_spread_less),
};
TEST_MAIN(cases)
