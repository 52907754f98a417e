/* Does what journal.h does, for updates that are no row of the device: a block of up to 256 elements is copied into the
 * record before it changes. Blocks of all spans and passes are numbered consecutively, in the order in which they
 * change. */
#ifndef TESS_OPTIM_BLOCK_JOURNAL_H
#define TESS_OPTIM_BLOCK_JOURNAL_H

#include "tessera/memory.h"

/* arrays: weights, and of each moment values and largest magnitudes. */
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

/* *journal is NULL when named memory does not outlive the process. */
tess_status optim_block_journal_open(tess_mem *mem, optim_block_journal **journal);
void optim_block_journal_close(tess_mem *mem, optim_block_journal **journal);

/* Begins the update of `step` (> 0) with one lane per thread, or resumes it. Returns the number of lanes. */
int optim_block_journal_begin(optim_block_journal *journal, int64_t step, int n_threads);
/* The block that lane `lane` was changing when the update broke off: all before are done. Below every number when it
 * has changed none, above every number when the update is complete. */
int64_t optim_block_journal_at(const optim_block_journal *journal, int lane);
/* Copies what block `number` holds; it may change from here on. */
void optim_block_journal_record(optim_block_journal *journal, int lane, int64_t number, const optim_block_bytes *block);
/* Puts back what the block of optim_block_journal_at held. */
void optim_block_journal_restore(const optim_block_journal *journal, int lane, const optim_block_bytes *block);
/* Marks the update complete: resuming this step then does nothing. */
void optim_block_journal_end(optim_block_journal *journal);

#endif
