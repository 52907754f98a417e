#include "optim/journal.h"

#include <string.h>

#include "base/mem/named.h"
#include "base/mem/scoped.h"

/* room for float32 weights and two moments; 8-bit moments need less, even with their two additional floats */
enum { RECORD_BYTES = 3 * 256 * (int)sizeof(float) };

/* The record of a block. The order of writing is that of device/undo.h: first the old values into the slot that the
 * mark does not name, then the mark, then the change itself. */
typedef struct block_record {
    _Alignas(64) unsigned char old[2][RECORD_BYTES];
    _Atomic int64_t mark; /* 2 * number of the block + slot */
} block_record;

/* The kept memory begins with this. The lanes follow, each with its records: a row's, then a block's. */
typedef struct kept {
    _Alignas(64) _Atomic int64_t step; /* the current or latest step; stored last when a step begins */
    int n_lanes;
} kept;

struct optim_journal {
    kept *kept;
    size_t row_bytes, block_bytes; /* bytes of a lane's records; 0: there is none of that kind */
};

static size_t size_of(const optim_journal *j)
{
    return sizeof(kept) + JOURNAL_LANES * (j->row_bytes + j->block_bytes);
}

static tess_undo *row_of(const optim_journal *j, int lane)
{
    return (void *)((unsigned char *)(j->kept + 1) + (size_t)lane * (j->row_bytes + j->block_bytes));
}

static block_record *block_of(const optim_journal *j, int lane)
{
    return (void *)((unsigned char *)row_of(j, lane) + j->row_bytes);
}

tess_status optim_journal_open(tess_mem *mem, unsigned records, optim_journal **out)
{
    bool found;
    *out = NULL;
    if (records == 0 || !tess_mem_has_store(mem))
        return TESS_OK;
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(**out), "journal", (void **)out));
    optim_journal *j = *out;
    j->row_bytes = (records & OPTIM_RECORD_ROWS) != 0 ? sizeof(tess_undo) : 0;
    j->block_bytes = (records & OPTIM_RECORD_BLOCKS) != 0 ? sizeof(block_record) : 0;
    tess_status status = tess_mem_alloc_named(mem, TESS_POOL_MISC, "journal", size_of(j), (void **)&j->kept, &found);
    if (status != TESS_OK)
        optim_journal_close(mem, out);
    return status;
}

void optim_journal_close(tess_mem *mem, optim_journal **journal)
{
    if (*journal == NULL)
        return;
    tess_mem_free_named(mem, TESS_POOL_MISC, size_of(*journal), (*journal)->kept);
    tess_mem_drop(journal);
}

int optim_journal_begin(optim_journal *j, int64_t step, int n_threads)
{
    if (atomic_load(&j->kept->step) == step)
        return j->kept->n_lanes;
    atomic_store(&j->kept->step, 0); /* the lanes belong to no step until they are cleared */
    j->kept->n_lanes = n_threads < JOURNAL_LANES ? n_threads : JOURNAL_LANES;
    for (int lane = 0; lane < j->kept->n_lanes; lane++) {
        if (j->row_bytes > 0)
            tess_undo_clear(row_of(j, lane));
        if (j->block_bytes > 0)
            atomic_store(&block_of(j, lane)->mark, -1);
    }
    atomic_store(&j->kept->step, step);
    return j->kept->n_lanes;
}

void optim_journal_end(optim_journal *j)
{
    for (int lane = 0; lane < j->kept->n_lanes; lane++) {
        if (j->row_bytes > 0)
            tess_undo_finish(row_of(j, lane));
        if (j->block_bytes > 0)
            atomic_store(&block_of(j, lane)->mark, INT64_MAX);
    }
}

/* ---- Rows ---- */
int64_t optim_journal_resume(const optim_journal *j, int lane, const optim_part *part)
{
    tess_undo_block block = tess_undo_read(row_of(j, lane));
    if (block.first < part->begin)
        return part->begin;
    if (block.first >= part->end)
        return part->end;
    for (int a = 0; a < TESS_UNDO_ARRAYS; a++)
        memcpy(part->array[a] + (block.first - part->begin), block.old[a], (size_t)block.n * sizeof(float));
    return block.first;
}

tess_undo *optim_journal_undo(const optim_journal *j, int lane)
{
    return row_of(j, lane);
}

/* ---- Blocks ---- */
int64_t optim_journal_block(const optim_journal *j, int lane)
{
    return atomic_load(&block_of(j, lane)->mark) >> 1;
}

void optim_journal_record(const optim_journal *j, int lane, int64_t number, const optim_block_bytes *block)
{
    block_record *record = block_of(j, lane);
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

void optim_journal_restore(const optim_journal *j, int lane, const optim_block_bytes *block)
{
    const block_record *record = block_of(j, lane);
    const unsigned char *old = record->old[atomic_load(&record->mark) & 1];
    for (int i = 0; i < block->n; i++) {
        memcpy(block->array[i].at, old, block->array[i].bytes);
        old += block->array[i].bytes;
    }
}
