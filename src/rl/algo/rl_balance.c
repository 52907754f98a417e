#include "rl/algo/rl_balance.h"

#include <stdlib.h>
#include <string.h>

#include "base/core/heap.h"
#include "base/mem/scoped.h"

/* The item at the top of a heap is the one that comes first: larger key, then lower number. */
typedef struct heap_item {
    int64_t key;
    int32_t number;
} heap_item;

static bool comes_first(const void *x, const void *y)
{
    const heap_item *a = x, *b = y;
    return a->key != b->key ? a->key > b->key : a->number < b->number;
}

/* Restores the order below `at`, whose key became smaller. */
static void sink(heap_item *heap, int64_t n, int64_t at)
{
    heap_item moved = heap[at];
    tess_heap_sink(heap, (size_t)n, (size_t)at, &moved, sizeof(moved), comes_first);
}

static void make_heap(heap_item *heap, int64_t n)
{
    for (int64_t at = n / 2 - 1; at >= 0; at--)
        sink(heap, n, at);
}

static heap_item take(heap_item *heap, int64_t *n)
{
    heap_item top = heap[0];
    heap[0] = heap[--*n];
    sink(heap, *n, 0);
    return top;
}

static tess_status check_costs(const int64_t *cost, int64_t n, int32_t n_bins)
{
    TESS_CHECK(n_bins > 0 && n <= INT32_MAX, TESS_E_INVALID, "balance: %lld items to %d bins", (long long)n,
               (int)n_bins);
    for (int64_t i = 0; i < n; i++)
        TESS_CHECK(cost[i] >= 0, TESS_E_INVALID, "balance: item %lld costs %lld", (long long)i, (long long)cost[i]);
    return TESS_OK;
}

static void add_up(const int64_t *cost, int64_t n, const int32_t *bin, int32_t n_bins, int64_t *total)
{
    if (total == NULL)
        return;
    memset(total, 0, (size_t)n_bins * sizeof(*total));
    for (int64_t i = 0; i < n; i++)
        total[bin[i]] += cost[i];
}

tess_status tess_balance_lpt(tess_mem *mem, const int64_t *cost, int64_t n, int32_t n_bins, int32_t *bin,
                             int64_t *total)
{
    TESS_TRY(check_costs(cost, n, n_bins));
    TESS_AUTO(tess_mem_drop)
    heap_item *items = NULL; /* (n) items by cost, then (n_bins) bins by room: a bin's key is minus its sum */
    TESS_TRY(TESS_NEW(mem, n + (size_t)n_bins, "items to balance", &items));
    heap_item *bins = items + n;
    for (int64_t i = 0; i < n; i++)
        items[i] = (heap_item){cost[i], (int32_t)i};
    for (int32_t b = 0; b < n_bins; b++)
        bins[b] = (heap_item){0, b};
    make_heap(items, n);
    for (int64_t left = n; left > 0;) {
        heap_item item = take(items, &left);
        bin[item.number] = bins[0].number;
        bins[0].key -= item.key;
        sink(bins, n_bins, 0);
    }
    add_up(cost, n, bin, n_bins, total);
    return TESS_OK;
}

/* A set of items, as a linked list. */
typedef struct item_set {
    int64_t sum;
    int32_t head, tail; /* -1: empty */
} item_set;

static int by_sum(const void *x, const void *y)
{
    const item_set *a = x, *b = y;
    if (a->sum != b->sum)
        return a->sum > b->sum ? -1 : 1;
    return a->head != b->head ? (a->head < b->head ? -1 : 1) : 0; /* all empty sets are equal */
}

static item_set join(item_set a, item_set b, int32_t *next)
{
    if (a.head < 0 || b.head < 0)
        return a.head < 0 ? (item_set){a.sum + b.sum, b.head, b.tail} : a;
    next[a.tail] = b.head;
    return (item_set){a.sum + b.sum, a.head, b.tail};
}

/* Merges partition b into partition a; each has n_bins sets in the order of descending sums. Returns the difference
 * between the largest and the smallest new sum. */
static int64_t merge(item_set *a, const item_set *b, int32_t n_bins, int32_t *next)
{
    for (int32_t k = 0; k < n_bins; k++)
        a[k] = join(a[k], b[n_bins - 1 - k], next);
    qsort(a, (size_t)n_bins, sizeof(*a), by_sum);
    return a[0].sum - a[n_bins - 1].sum;
}

/* sets (n, n_bins): partition i begins with item i only. heap (n): the partitions by spread. Returns the number of
 * the last partition, which is the result. */
static int32_t difference(const int64_t *cost, int64_t n, int32_t n_bins, item_set *sets, heap_item *heap,
                          int32_t *next)
{
    for (int64_t i = 0; i < n; i++) {
        item_set *own = sets + i * n_bins;
        own[0] = (item_set){cost[i], (int32_t)i, (int32_t)i};
        for (int32_t k = 1; k < n_bins; k++)
            own[k] = (item_set){0, -1, -1};
        heap[i] = (heap_item){n_bins > 1 ? cost[i] : 0, (int32_t)i};
        next[i] = -1;
    }
    make_heap(heap, n);
    for (int64_t left = n; left > 1;) {
        int32_t a = take(heap, &left).number, b = heap[0].number;
        heap[0] = (heap_item){merge(sets + (int64_t)a * n_bins, sets + (int64_t)b * n_bins, n_bins, next), a};
        sink(heap, left, 0);
    }
    return heap[0].number;
}

tess_status tess_balance_differencing(tess_mem *mem, const int64_t *cost, int64_t n, int32_t n_bins, int32_t *bin,
                                      int64_t *total)
{
    TESS_TRY(check_costs(cost, n, n_bins));
    TESS_AUTO(tess_mem_drop) item_set *sets = NULL;
    TESS_AUTO(tess_mem_drop) heap_item *heap = NULL;
    TESS_AUTO(tess_mem_drop) int32_t *next = NULL;
    size_t count = (size_t)n, n_sets;
    TESS_CHECK(!__builtin_mul_overflow(count, (size_t)n_bins, &n_sets), TESS_E_NOMEM, "balance: too many items");
    TESS_TRY(TESS_NEW(mem, n_sets, "partitions", &sets));
    TESS_TRY(TESS_NEW(mem, count, "items to balance", &heap));
    TESS_TRY(TESS_NEW(mem, count, "items of a set", &next));
    const item_set *best = n > 0 ? sets + (int64_t)difference(cost, n, n_bins, sets, heap, next) * n_bins : NULL;
    for (int32_t b = 0; best != NULL && b < n_bins; b++) {
        for (int32_t i = best[b].head; i >= 0; i = next[i])
            bin[i] = b;
    }
    add_up(cost, n, bin, n_bins, total);
    return TESS_OK;
}
