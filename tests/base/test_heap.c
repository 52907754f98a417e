/* Heaps of base/core. */
#include "support/test.h"

#include "base/core/heap.h"
#include "base/core/rng.h"

typedef struct item {
    int32_t key, number;
    char rest[12];
} item;

static bool before(const void *x, const void *y)
{
    const item *a = x, *b = y;
    return a->key != b->key ? a->key < b->key : a->number < b->number;
}

enum { MOST = 200 };

static item item_of(int32_t key, int32_t number)
{
    item i = {.key = key, .number = number};
    snprintf(i.rest, sizeof(i.rest), "%d", number);
    return i;
}

static void expect_ascending(item *heap, size_t n)
{
    item last = heap[0];
    for (size_t left = n; left > 0;) {
        const item first = heap[0], end = heap[--left];
        EXPECT(!before(&first, &last));
        EXPECT_TEXT(first.rest, item_of(0, first.number).rest);
        last = first;
        tess_heap_sink(heap, left, 0, &end, sizeof(end), before);
    }
}

static void items_leave_in_order_whatever_the_order_in_which_they_came(void)
{
    item heap[MOST];
    for (size_t n = 1; n <= MOST; n++) {
        for (size_t i = 0; i < n; i++) {
            const item new = item_of((int32_t)(tess_rng_u64(7, TESS_RNG_TEST, n, i) % 50), (int32_t)i);
            tess_heap_rise(heap, i, &new, sizeof(new), before);
        }
        expect_ascending(heap, n);
    }
}

static void an_array_becomes_a_heap_from_its_end(void)
{
    item heap[MOST];
    for (size_t i = 0; i < MOST; i++)
        heap[i] = item_of((int32_t)(MOST - i) / 3, (int32_t)i);
    for (size_t i = MOST / 2; i-- > 0;) {
        const item moved = heap[i];
        tess_heap_sink(heap, MOST, i, &moved, sizeof(moved), before);
    }
    expect_ascending(heap, MOST);
}

static const test_case cases[] = {
    CASE(items_leave_in_order_whatever_the_order_in_which_they_came),
    CASE(an_array_becomes_a_heap_from_its_end),
};
TEST_MAIN(cases)
