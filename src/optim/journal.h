/* The journal of an in-place update. The process may die at any instruction of it; its successor resumes there, with
 * the same bits.
 *
 * The elements of all tensors are numbered consecutively. Each tensor is cut into parts, one per lane; a lane is one
 * thread's work and has a record of its current block (device/undo.h). A tensor begins when all lanes have finished the
 * one before.
 *
 * Optimizers keep a journal where named memory outlives the process (base/mem/named.h): a process that finds the same
 * memory completes the tess_optimizer_step of its predecessor by making the same call. This one belongs to the device's
 * AdamW row, which records what it is about to change itself; block_journal.h has the other rules. */
#ifndef TESS_OPTIM_JOURNAL_H
#define TESS_OPTIM_JOURNAL_H

#include "device/undo.h"
#include "tessera/memory.h"

enum { JOURNAL_LANES = 128 };

typedef struct optim_journal optim_journal;

/* Elements [begin, end) of a lane, by their numbers. */
typedef struct optim_part {
    float *array[TESS_UNDO_ARRAYS]; /* each from element `begin` on: weights and both moments */
    int64_t begin, end;
} optim_part;

/* *journal is NULL when named memory does not outlive the process: there is nothing to journal. */
tess_status optim_journal_open(tess_mem *mem, optim_journal **journal);
void optim_journal_close(tess_mem *mem, optim_journal **journal);

/* Begins the update of `step` (> 0) with one lane per thread, or resumes it. Returns the number of lanes. */
int optim_journal_begin(optim_journal *journal, int64_t step, int n_threads);
/* The element from which lane `lane` resumes; part->end: it is done. Restores the interrupted block first. */
int64_t optim_journal_resume(const optim_journal *journal, int lane, const optim_part *part);
/* The record that the lane's kernels write. */
tess_undo *optim_journal_undo(optim_journal *journal, int lane);
/* Marks the update complete: resuming this step then does nothing. */
void optim_journal_end(optim_journal *journal);

#endif
