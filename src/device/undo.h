/* The record of an update in place that may be cut off at any instruction. It lies in memory that outlives the process;
 * a thread that updates has one. Blocks of elements change one after the other, in ascending order:
 *
 *     old values of block b   into the slot that the mark does not name
 *     mark                    names b and that slot
 *     block b changes
 *
 * So all before the block that the mark names is new, all after it is old. A process that puts that block back, changed
 * or not, can go on from there. The record stays in a core's first cache: it costs some stores, and no traffic of
 * memory.
 *
 * A process ends between two instructions, and what it stored before that is seen by all in the end. So nothing but the
 * compiler has to be kept to the order. */
#ifndef TESS_DEVICE_UNDO_H
#define TESS_DEVICE_UNDO_H

#include <stdatomic.h>
#include <stdint.h>

enum { TESS_UNDO_BLOCK = 16, TESS_UNDO_ARRAYS = 3 };

typedef struct tess_undo {
    _Alignas(64) float old[2][TESS_UNDO_ARRAYS][TESS_UNDO_BLOCK]; /* slots */
    _Atomic int64_t mark; /* 32 * (number of the block's first element) + 2 * (elements - 1) + slot */
    int64_t first;        /* number of the element that a kernel calls 0: set by who calls it, with every call */
} tess_undo;

/* Marks no block; the next one goes into slot 0. */
static inline void tess_undo_clear(tess_undo *undo)
{
    atomic_store(&undo->mark, -1);
}

/* Marks the place after all elements: nothing is left to do. */
static inline void tess_undo_finish(tess_undo *undo)
{
    atomic_store(&undo->mark, INT64_MAX);
}

/* The place for the old values of the next block, [array][element]; tess_undo_mark follows. */
static inline float (*tess_undo_slot(tess_undo *undo))[TESS_UNDO_BLOCK]
{
    atomic_signal_fence(memory_order_seq_cst);
    return undo->old[(atomic_load_explicit(&undo->mark, memory_order_relaxed) & 1) ^ 1];
}

/* Elements i .. i+n of the call, 0 < n <= TESS_UNDO_BLOCK, may change from here on. */
static inline void tess_undo_mark(tess_undo *undo, int64_t i, int64_t n)
{
    int64_t slot = (atomic_load_explicit(&undo->mark, memory_order_relaxed) & 1) ^ 1;
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(&undo->mark, (undo->first + i) * 32 + (n - 1) * 2 + slot, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
}

/* The block that the mark names: number of the first element (-1: none), number of elements, and their old values. */
typedef struct tess_undo_block {
    int64_t first, n;
    const float (*old)[TESS_UNDO_BLOCK];
} tess_undo_block;

static inline tess_undo_block tess_undo_read(const tess_undo *undo)
{
    int64_t mark = atomic_load(&undo->mark);
    return (tess_undo_block){.first = mark >> 5, .n = (mark >> 1 & 15) + 1, .old = undo->old[mark & 1]};
}

#endif
