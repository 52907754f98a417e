/* Packs sequences of different lengths into bins of limited tokens, so that bins cost about the same. */
#include "rl/algo/rl_balance.h"
#include "base/mem/scoped.h"

#include <stdlib.h>
#include <string.h>

static tess_status check_lengths(const int64_t *lengths, int64_t n, int64_t max_tokens, int together)
{
    TESS_CHECK(together >= 1 && n % together == 0, TESS_E_INVALID,
               "packing: %lld samples do not divide into groups of %d", (long long)n, together);
    TESS_CHECK(n <= INT32_MAX, TESS_E_INVALID, "packing: %lld samples are too many", (long long)n);
    for (int64_t first = 0; first < n; first += together) {
        int64_t sum = 0;
        for (int64_t i = first; i < first + together; i++) {
            TESS_CHECK(lengths[i] >= 0, TESS_E_INVALID, "packing: sample %lld has %lld tokens", (long long)i,
                       (long long)lengths[i]);
            TESS_CHECK(lengths[i] <= max_tokens - sum, TESS_E_INVALID,
                       "packing: sample %lld%s has %lld tokens, and a micro-batch at most %lld; raise max_tokens or "
                       "shorten the samples",
                       (long long)i, together > 1 ? " with its pair" : "", (long long)(sum + lengths[i]),
                       (long long)max_tokens);
            sum += lengths[i];
        }
    }
    return TESS_OK;
}

static int64_t sum_of(const int64_t *lengths, int64_t first, int n)
{
    int64_t sum = 0;
    for (int64_t i = first; i < first + n; i++)
        sum += lengths[i];
    return sum;
}

/* Assigns to bin `b` every sample from `begin` on that has no bin and fits. */
static void fill_bin(const int64_t *lengths, int64_t begin, int64_t n, int64_t room, int together, int32_t b,
                     int32_t *bin)
{
    for (int64_t i = begin; i < n; i += together) {
        int64_t size = sum_of(lengths, i, together);
        if (bin[i] >= 0 || size > room)
            continue;
        room -= size;
        for (int k = 0; k < together; k++)
            bin[i + k] = b;
    }
}

tess_status tess_pack_first_fit(const int64_t *lengths, int64_t n, int64_t max_tokens, int together, int32_t *bin,
                                int32_t *n_bins)
{
    TESS_TRY(check_lengths(lengths, n, max_tokens, together));
    for (int64_t i = 0; i < n; i++)
        bin[i] = -1;
    *n_bins = 0;
    /* Each bin in turn takes all remaining samples that fit. This equals first fit, and needs no list of bins. */
    for (int64_t begin = 0; begin < n; begin += together) {
        if (bin[begin] < 0)
            fill_bin(lengths, begin, n, max_tokens, together, (*n_bins)++, bin);
    }
    return TESS_OK;
}

/* ---- Bins that cost the same ---- */
/* Samples that share a bin are one item. */
typedef struct pack_items {
    int64_t *length, *cost; /* (n) */
    int32_t *bin;           /* (n) */
    int64_t *filled;        /* (n) tokens of each bin; there are at most n bins */
    int64_t n;
} pack_items;

static tess_status alloc_items(tess_scope *own, int64_t n, pack_items *items)
{
    items->n = n;
    TESS_TRY(TESS_NEW_IN(own, n, "items to balance", &items->length));
    TESS_TRY(TESS_NEW_IN(own, n, "items to balance", &items->cost));
    TESS_TRY(TESS_NEW_IN(own, n, "items to balance", &items->bin));
    return TESS_NEW_IN(own, n, "items to balance", &items->filled);
}

static bool fits(const pack_items *items, int64_t max_tokens, int32_t n_bins)
{
    memset(items->filled, 0, (size_t)n_bins * sizeof(*items->filled));
    for (int64_t i = 0; i < items->n; i++) {
        int64_t *filled = &items->filled[items->bin[i]];
        *filled += items->length[i];
        if (*filled > max_tokens)
            return false;
    }
    return true;
}

/* Tries numbers of bins from *n_bins on. The search ends, because all items fit when each has its own bin. */
static tess_status find_balance(tess_mem *mem, tess_balance_fn balance, const pack_items *items, int64_t max_tokens,
                                int32_t *n_bins)
{
    TESS_TRY(balance(mem, items->cost, items->n, *n_bins, items->bin, NULL));
    while (*n_bins < items->n && !fits(items, max_tokens, *n_bins))
        TESS_TRY(balance(mem, items->cost, items->n, ++*n_bins, items->bin, NULL));
    return TESS_OK;
}

tess_status tess_pack_balanced(tess_mem *mem, tess_balance_fn balance, const int64_t *lengths, const int64_t *cost,
                               int64_t n, int64_t max_tokens, int together, int32_t *bin, int32_t *n_bins)
{
    TESS_AUTO(tess_scope_end) tess_scope own = {.mem = mem};
    pack_items items = {.length = NULL};
    TESS_TRY(tess_pack_first_fit(lengths, n, max_tokens, together, bin, n_bins));
    if (n == 0)
        return TESS_OK;
    TESS_TRY(alloc_items(&own, n / together, &items));
    for (int64_t i = 0; i < items.n; i++) {
        items.length[i] = sum_of(lengths, i * together, together);
        items.cost[i] = sum_of(cost, i * together, together);
    }
    TESS_TRY(find_balance(mem, balance, &items, max_tokens, n_bins));
    for (int64_t i = 0; i < n; i++)
        bin[i] = items.bin[i / together];
    return TESS_OK;
}

/* ---- Costs ---- */
int64_t tess_sequence_cost(int64_t length, int64_t width)
{
    return length * (width + length);
}

typedef struct pack_cost {
    int64_t cost;
    int32_t bin;
} pack_cost;

static int by_cost(const void *x, const void *y)
{
    const pack_cost *a = x, *b = y;
    if (a->cost != b->cost)
        return a->cost > b->cost ? -1 : 1;
    return a->bin < b->bin ? -1 : 1;
}

tess_status tess_pack_by_cost(tess_mem *mem, const int64_t *cost, int64_t n, int32_t *bin, int32_t n_bins)
{
    TESS_AUTO(tess_mem_drop) pack_cost *bins = NULL;
    TESS_AUTO(tess_mem_drop) int32_t *number = NULL;
    TESS_TRY(TESS_NEW(mem, n_bins, "costs of micro-batches", &bins));
    TESS_TRY(TESS_NEW(mem, n_bins, "order of micro-batches", &number));
    for (int32_t b = 0; b < n_bins; b++)
        bins[b].bin = b;
    for (int64_t i = 0; i < n; i++)
        bins[bin[i]].cost += cost[i];
    qsort(bins, (size_t)n_bins, sizeof(*bins), by_cost);
    for (int32_t b = 0; b < n_bins; b++)
        number[bins[b].bin] = b;
    for (int64_t i = 0; i < n; i++)
        bin[i] = number[bin[i]];
    return TESS_OK;
}
