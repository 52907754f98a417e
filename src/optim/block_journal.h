/* The journal of updates that are not done by the device's AdamW kernel (journal.h). A block of up to 256 elements
 * is copied to the record before it changes. Blocks of all spans and passes are numbered consecutively, in the order
 * in which they change. */
#ifndef TESS_OPTIM_BLOCK_JOURNAL_H
#define TESS_OPTIM_BLOCK_JOURNAL_H

#include "tessera/memory.h"

/* The arrays of a block: weights, and for each moment its values and its largest magnitudes. */
enum { OPTIM_BLOCK_ARRAYS = 5 };

typedef struct optim_block_journal optim_block_journal;

/* The memory of a block, array by array. */
typedef struct optim_block_bytes {
    int n;
    struct {
        void *at;
        size_t bytes;
    } array[OPTIM_BLOCK_ARRAYS];
} optim_block_bytes;

/* Opens the journal. *journal is NULL if named memory does not outlive the process. */
tess_status optim_block_journal_open(tess_mem *mem, optim_block_journal **journal);
void optim_block_journal_close(tess_mem *mem, optim_block_journal **journal);

/* Begins the update of `step` (> 0) with one lane per thread, or resumes it. Returns the number of lanes. */
int optim_block_journal_begin(optim_block_journal *journal, int64_t step, int n_threads);
/* Returns the number of the block that lane `lane` was changing when the update was interrupted; all earlier ones
 * are done. The result is less than every number if the lane has changed none, and greater than every number if the
 * update is complete. */
int64_t optim_block_journal_at(const optim_block_journal *journal, int lane);
/* Copies the content of block `number` to the record. Afterwards the block may change. */
void optim_block_journal_record(optim_block_journal *journal, int lane, int64_t number, const optim_block_bytes *block);
/* Restores the old content of the block that optim_block_journal_at names. */
void optim_block_journal_restore(const optim_block_journal *journal, int lane, const optim_block_bytes *block);
/* Marks the update complete: resuming this step then does nothing. */
void optim_block_journal_end(optim_block_journal *journal);

#endif
