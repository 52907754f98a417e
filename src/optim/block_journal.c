#include "optim/block_journal.h"

#include <stdatomic.h>
#include <string.h>

#include "base/mem/named.h"
#include "optim/journal.h"

/* room for float32 weights and two moments; 8-bit moments need less, even with their two additional floats */
enum { RECORD_BYTES = 3 * 256 * (int)sizeof(float) };

/* The record of one lane. The order of writing is that of device/undo.h: first the old values into the slot that the
 * mark does not name, then the mark, then the change itself. */
typedef struct lane_record {
    _Alignas(64) unsigned char old[2][RECORD_BYTES];
    _Atomic int64_t mark; /* 2 * number of the block + slot */
} lane_record;

struct optim_block_journal {
    _Atomic int64_t step; /* the current or latest step; stored last when a step begins */
    int n_lanes;
    lane_record lanes[JOURNAL_LANES];
};

tess_status optim_block_journal_open(tess_mem *mem, optim_block_journal **journal)
{
    bool found;
    *journal = NULL;
    return tess_mem_has_store(mem)
               ? tess_mem_alloc_named(mem, TESS_POOL_MISC, "block journal", sizeof(**journal), (void **)journal, &found)
               : TESS_OK;
}

void optim_block_journal_close(tess_mem *mem, optim_block_journal **journal)
{
    tess_mem_free_named(mem, TESS_POOL_MISC, sizeof(**journal), *journal);
    *journal = NULL;
}

int optim_block_journal_begin(optim_block_journal *j, int64_t step, int n_threads)
{
    if (atomic_load(&j->step) == step)
        return j->n_lanes;
    atomic_store(&j->step, 0); /* the lanes belong to no step until they are cleared */
    j->n_lanes = n_threads < JOURNAL_LANES ? n_threads : JOURNAL_LANES;
    for (int lane = 0; lane < j->n_lanes; lane++)
        atomic_store(&j->lanes[lane].mark, -1);
    atomic_store(&j->step, step);
    return j->n_lanes;
}

int64_t optim_block_journal_at(const optim_block_journal *j, int lane)
{
    return atomic_load(&j->lanes[lane].mark) >> 1;
}

void optim_block_journal_record(optim_block_journal *j, int lane, int64_t number, const optim_block_bytes *block)
{
    lane_record *record = &j->lanes[lane];
    int64_t slot = (atomic_load_explicit(&record->mark, memory_order_relaxed) & 1) ^ 1;
    unsigned char *old = record->old[slot];
    atomic_signal_fence(memory_order_seq_cst);
    for (int i = 0; i < block->n; i++) {
        memcpy(old, block->array[i].at, block->array[i].bytes);
        old += block->array[i].bytes;
    }
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(&record->mark, number * 2 + slot, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
}

void optim_block_journal_restore(const optim_block_journal *j, int lane, const optim_block_bytes *block)
{
    const lane_record *record = &j->lanes[lane];
    const unsigned char *old = record->old[atomic_load(&record->mark) & 1];
    for (int i = 0; i < block->n; i++) {
        memcpy(block->array[i].at, old, block->array[i].bytes);
        old += block->array[i].bytes;
    }
}

void optim_block_journal_end(optim_block_journal *j)
{
    for (int lane = 0; lane < j->n_lanes; lane++)
        atomic_store(&j->lanes[lane].mark, INT64_MAX);
}
