/* The journal of an in-place update. The process may die at any instruction of the update; its successor resumes
 * there, with the same bits.
 *
 * The elements of all tensors are numbered consecutively. Each tensor is cut into parts, one per lane. A lane is one
 * thread's work, with a record of its current block (device/undo.h). A tensor starts when all lanes have finished
 * the previous one.
 *
 * Optimizers keep a journal if named memory outlives the process (base/mem/named.h). A process that finds the same
 * memory completes its predecessor's tess_optimizer_step by making the same call. This journal serves the device's
 * AdamW kernel, which itself records what it is about to change. block_journal.h has the journal of the other rules. */
#ifndef TESS_OPTIM_JOURNAL_H
#define TESS_OPTIM_JOURNAL_H

#include "device/undo.h"
#include "tessera/memory.h"

enum { JOURNAL_LANES = 128 };

typedef struct optim_journal optim_journal;

/* The elements of a lane: numbers [begin, end). */
typedef struct optim_part {
    float *array[TESS_UNDO_ARRAYS]; /* weights and both moments, each from element `begin` on */
    int64_t begin, end;
} optim_part;

/* Opens the journal. *journal is NULL if named memory does not outlive the process: then no journal is needed. */
tess_status optim_journal_open(tess_mem *mem, optim_journal **journal);
void optim_journal_close(tess_mem *mem, optim_journal **journal);

/* Begins the update of `step` (> 0) with one lane per thread, or resumes it. Returns the number of lanes. */
int optim_journal_begin(optim_journal *journal, int64_t step, int n_threads);
/* Restores the block that was interrupted. Returns the element from which lane `lane` resumes; part->end: the lane
 * is done. */
int64_t optim_journal_resume(const optim_journal *journal, int lane, const optim_part *part);
/* Returns the record that the lane's kernels write. */
tess_undo *optim_journal_undo(optim_journal *journal, int lane);
/* Marks the update complete: resuming this step then does nothing. */
void optim_journal_end(optim_journal *journal);

#endif
