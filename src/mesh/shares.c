#include "mesh/shares.h"

#include "tessera/status.h"

static int greatest_divisor(int a, int b)
{
    while (b != 0) {
        const int rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

tess_status tess_shares_by_weight(int *weights, int n, tess_shares *shares)
{
    int divisor = 0;
    int64_t total = 0;
    TESS_CHECK(n >= 1, TESS_E_INVALID, "shares of %d ranks: give at least one", n);
    for (int r = 0; r < n; r++) {
        TESS_CHECK(weights[r] >= 1, TESS_E_INVALID, "the share of rank %d has the weight %d: give 1 or more", r,
                   weights[r]);
        divisor = greatest_divisor(weights[r], divisor);
        total += weights[r];
        TESS_CHECK(total <= INT32_MAX, TESS_E_INVALID,
                   "the weights of shares up to rank %d sum to %lld; %d is the most: give smaller ones", r,
                   (long long)total, INT32_MAX);
    }
    for (int r = 0; r < n; r++)
        weights[r] /= divisor;
    total /= divisor;
    *shares = (tess_shares){.n = n, .weights = total > n ? weights : NULL, .total = total};
    return TESS_OK;
}

static int weight_of(const tess_shares *shares, int rank)
{
    return shares->weights != NULL ? shares->weights[rank] : 1;
}

/* Returns the sum of the weights before the rank. */
static int64_t first_of(const tess_shares *shares, int rank)
{
    int64_t first = 0;
    if (shares->weights == NULL)
        return rank;
    for (int r = 0; r < rank; r++)
        first += shares->weights[r];
    return first;
}

int tess_shares_taker(const tess_shares *shares, int64_t index)
{
    int rank = 0;
    int64_t place = index % shares->total;
    if (shares->weights == NULL)
        return (int)place;
    for (; place >= shares->weights[rank]; rank++)
        place -= shares->weights[rank];
    return rank;
}

int64_t tess_shares_index(const tess_shares *shares, int rank, int64_t k)
{
    const int weight = weight_of(shares, rank);
    return k / weight * shares->total + first_of(shares, rank) + k % weight;
}

int64_t tess_shares_order(const tess_shares *shares, int64_t index)
{
    const int rank = tess_shares_taker(shares, index);
    return index / shares->total * weight_of(shares, rank) + index % shares->total - first_of(shares, rank);
}

int64_t tess_shares_count(const tess_shares *shares, int rank, int64_t n)
{
    const int weight = weight_of(shares, rank);
    const int64_t left = n % shares->total - first_of(shares, rank);
    return n / shares->total * weight + (left <= 0 ? 0 : left < weight ? left : weight);
}

int64_t tess_shares_rounds(const tess_shares *shares, int64_t n)
{
    return (n + shares->total - 1) / shares->total;
}

void tess_shares_rows(const tess_shares *shares, int64_t n_rows, int rank, int64_t *begin, int64_t *count)
{
    const int64_t first = first_of(shares, rank), last = first + weight_of(shares, rank) - 1;
    int64_t end, n;
    tess_shard_rows(n_rows, (int)shares->total, (int)first, begin, count);
    tess_shard_rows(n_rows, (int)shares->total, (int)last, &end, &n);
    *count = end + n - *begin;
}
