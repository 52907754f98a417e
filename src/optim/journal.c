#include "optim/journal.h"

#include <string.h>

#include "base/mem/named.h"

struct optim_journal {
    _Atomic int64_t step; /* the current or latest step; stored last when a step begins */
    int n_lanes;
    tess_undo lanes[JOURNAL_LANES];
};

tess_status optim_journal_open(tess_mem *mem, optim_journal **journal)
{
    bool found;
    *journal = NULL;
    return tess_mem_has_store(mem)
               ? tess_mem_alloc_named(mem, TESS_POOL_MISC, "journal", sizeof(optim_journal), (void **)journal, &found)
               : TESS_OK;
}

void optim_journal_close(tess_mem *mem, optim_journal **journal)
{
    tess_mem_free_named(mem, TESS_POOL_MISC, sizeof(optim_journal), *journal);
    *journal = NULL;
}

int optim_journal_begin(optim_journal *j, int64_t step, int n_threads)
{
    if (atomic_load(&j->step) == step)
        return j->n_lanes;
    atomic_store(&j->step, 0); /* the lanes belong to no step until they are cleared */
    j->n_lanes = n_threads < JOURNAL_LANES ? n_threads : JOURNAL_LANES;
    for (int lane = 0; lane < j->n_lanes; lane++)
        tess_undo_clear(&j->lanes[lane]);
    atomic_store(&j->step, step);
    return j->n_lanes;
}

int64_t optim_journal_resume(const optim_journal *j, int lane, const optim_part *part)
{
    tess_undo_block block = tess_undo_read(&j->lanes[lane]);
    if (block.first < part->begin)
        return part->begin;
    if (block.first >= part->end)
        return part->end;
    for (int a = 0; a < TESS_UNDO_ARRAYS; a++)
        memcpy(part->array[a] + (block.first - part->begin), block.old[a], (size_t)block.n * sizeof(float));
    return block.first;
}

tess_undo *optim_journal_undo(optim_journal *j, int lane)
{
    return &j->lanes[lane];
}

void optim_journal_end(optim_journal *j)
{
    for (int lane = 0; lane < j->n_lanes; lane++)
        tess_undo_finish(&j->lanes[lane]);
}
