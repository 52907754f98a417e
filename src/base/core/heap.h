/* Binary heaps in arrays: heap[0] comes before all other items.
 *
 * The caller passes the size of an item and the order as constants, so each call compiles to code for these items. */
#ifndef TESS_BASE_CORE_HEAP_H
#define TESS_BASE_CORE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Whether item `a` comes before item `b`. */
typedef bool (*tess_heap_order)(const void *a, const void *b);

/* Moves an item up from `at` to its place; the item that was at `at` is overwritten. A new item is added with `at`
 * at the heap's end. */
static inline __attribute__((always_inline)) void tess_heap_rise(void *heap, size_t at, const void *item, size_t size,
                                                                 tess_heap_order before)
{
    char *items = heap;
    for (; at > 0 && before(item, items + (at - 1) / 2 * size); at = (at - 1) / 2)
        memcpy(items + at * size, items + (at - 1) / 2 * size, size);
    memcpy(items + at * size, item, size);
}

/* Moves an item down from `at` to its place, in a heap of n items; the item that was at `at` is overwritten. The
 * first item is removed by moving the last one down from there. */
static inline __attribute__((always_inline)) void tess_heap_sink(void *heap, size_t n, size_t at, const void *item,
                                                                 size_t size, tess_heap_order before)
{
    char *items = heap;
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && before(items + (child + 1) * size, items + child * size))
            child++;
        if (!before(items + child * size, item))
            break;
        memcpy(items + at * size, items + child * size, size);
    }
    memcpy(items + at * size, item, size);
}

#endif
