/* The journal of an in-place update. The process may die at any instruction of the update; its successor resumes
 * there, with the same bits.
 *
 * Each tensor is cut into parts, one per lane. A lane is one thread's work, with a record of its current block. A
 * tensor starts when all lanes have finished the previous one. There are two kinds of records:
 *
 * - rows: the device's AdamW kernel itself records what it is about to change (device/undo.h). The elements of all
 *   tensors are numbered consecutively.
 * - blocks: the other rules copy a block of up to 256 elements into the record before they change it. The blocks of all
 *   spans and passes are numbered consecutively, in the order in which they change.
 *
 * Optimizers keep a journal if named memory outlives the process (base/mem/named.h). A process that finds the same
 * memory completes its predecessor's tess_optimizer_step by making the same call. */
#ifndef TESS_OPTIM_JOURNAL_H
#define TESS_OPTIM_JOURNAL_H

#include "device/undo.h"
#include "tessera/memory.h"

enum { JOURNAL_LANES = 128 };
enum { OPTIM_RECORD_ROWS = 1, OPTIM_RECORD_BLOCKS = 2 };

typedef struct optim_journal optim_journal;

/* Opens a journal with these records. *journal is NULL if `records` is 0 or named memory does not outlive the process:
 * then no journal is needed. */
tess_status optim_journal_open(tess_mem *mem, unsigned records, optim_journal **journal);
void optim_journal_close(tess_mem *mem, optim_journal **journal);

/* Begins the update of `step` (> 0) with one lane per thread, or resumes it. Returns the number of lanes. */
int optim_journal_begin(optim_journal *journal, int64_t step, int n_threads);
/* Marks the update complete: resuming this step then does nothing. */
void optim_journal_end(optim_journal *journal);

/* ---- Rows ---- */
/* The elements of a lane: numbers [begin, end). */
typedef struct optim_part {
    float *array[TESS_UNDO_ARRAYS]; /* weights and both moments, each from element `begin` on */
    int64_t begin, end;
} optim_part;

/* Restores the block that was interrupted. Returns the element from which lane `lane` resumes; part->end: the lane
 * is done. */
int64_t optim_journal_resume(const optim_journal *journal, int lane, const optim_part *part);
/* Returns the record that the lane's kernels write. */
tess_undo *optim_journal_undo(const optim_journal *journal, int lane);

/* ---- Blocks ---- */
/* The arrays of a block: weights, and for each moment its values and its largest magnitudes. */
enum { OPTIM_BLOCK_ARRAYS = 5 };

/* The memory of a block, array by array. */
typedef struct optim_block_bytes {
    int n;
    struct {
        void *at;
        size_t bytes;
    } array[OPTIM_BLOCK_ARRAYS];
} optim_block_bytes;

/* Returns the number of the block that lane `lane` was changing when the update was interrupted; all earlier ones
 * are done. The result is less than every number if the lane has changed none, and greater than every number if the
 * update is complete. */
int64_t optim_journal_block(const optim_journal *journal, int lane);
/* Copies the content of block `number` to the record. Afterwards the block may change. */
void optim_journal_record(const optim_journal *journal, int lane, int64_t number, const optim_block_bytes *block);
/* Restores the old content of the block that optim_journal_block names. */
void optim_journal_restore(const optim_journal *journal, int lane, const optim_block_bytes *block);

#endif
