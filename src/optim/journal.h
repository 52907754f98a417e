/* The journal of an update in place. A process may die at any instruction of it; whoever takes its place goes on from
 * there, to the same bits.
 *
 * The elements of all tensors are numbered through. Each tensor is cut into parts, one a lane; a lane is a thread's
 * work and has a record of the block that is under way (device/undo.h). A tensor begins when all lanes are done with
 * the one before.
 *
 * AdamW keeps one where named memory outlives the process (base/mem/named.h): a process that finds the same memory ends
 * the tess_adamw_step that another began, or was about to begin, by the same call. */
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

/* *journal NULL when named memory does not outlive the process: nothing is to be journaled. */
tess_status optim_journal_open(tess_mem *mem, optim_journal **journal);
void optim_journal_close(tess_mem *mem, optim_journal **journal);

/* Begins the update of `step` (> 0) with as many lanes as threads, or goes on with it. Returns its lanes. */
int optim_journal_begin(optim_journal *journal, int64_t step, int n_threads);
/* From which element lane `lane` is to go on; part->end: it is done. What it was at is put back. */
int64_t optim_journal_resume(const optim_journal *journal, int lane, const optim_part *part);
/* The record for kernels that go on. */
tess_undo *optim_journal_undo(optim_journal *journal, int lane);
/* All is updated: to go on with this step is to do nothing. */
void optim_journal_end(optim_journal *journal);

#endif
