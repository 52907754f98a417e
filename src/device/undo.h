/* The record of an update in place that may be interrupted at any instruction. It is in memory that outlives the
 * process, and each thread that updates has one. Blocks of elements change one after the other, in ascending order:
 *
 *     old values of block b   are written to the slot that the mark does not name
 *     mark                    is set to b and that slot
 *     block b                 changes
 *
 * So all blocks before the one that the mark names are new, and all after it are old. A process that restores the old
 * values of that block, changed or not, can continue from there. The record stays in a core's first cache: it costs a
 * few stores, and no memory traffic.
 *
 * A process ends between two instructions, and all of its earlier stores become visible to others. So only the compiler
 * must be kept from reordering the stores. */
#ifndef TESS_DEVICE_UNDO_H
#define TESS_DEVICE_UNDO_H

#include <stdatomic.h>
#include <stdint.h>

enum { TESS_UNDO_BLOCK = 16, TESS_UNDO_ARRAYS = 3 };

typedef struct tess_undo {
    _Alignas(64) float old[2][TESS_UNDO_ARRAYS][TESS_UNDO_BLOCK]; /* the two slots */
    _Atomic int64_t mark; /* 32 * (number of the block's first element) + 2 * (elements - 1) + slot */
    int64_t first;        /* number of the element that a kernel calls 0; the caller sets it before each call */
} tess_undo;

/* Marks no block. The next block uses slot 0. */
static inline void tess_undo_clear(tess_undo *undo)
{
    atomic_store(&undo->mark, -1);
}

/* Marks the position after all elements: the update is complete. */
static inline void tess_undo_finish(tess_undo *undo)
{
    atomic_store(&undo->mark, INT64_MAX);
}

/* Returns the memory for the old values of the next block, [array][element]. tess_undo_mark must follow. */
static inline float (*tess_undo_slot(tess_undo *undo))[TESS_UNDO_BLOCK]
{
    atomic_signal_fence(memory_order_seq_cst);
    return undo->old[(atomic_load_explicit(&undo->mark, memory_order_relaxed) & 1) ^ 1];
}

/* Marks elements i .. i+n of the call, 0 < n <= TESS_UNDO_BLOCK. They may change afterwards. */
static inline void tess_undo_mark(tess_undo *undo, int64_t i, int64_t n)
{
    int64_t slot = (atomic_load_explicit(&undo->mark, memory_order_relaxed) & 1) ^ 1;
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(&undo->mark, (undo->first + i) * 32 + (n - 1) * 2 + slot, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
}

/* The block that the mark names: the number of its first element (-1: there is no block), the number of its elements,
 * and their old values. */
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
