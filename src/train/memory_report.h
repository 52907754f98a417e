/* Compares the memory that was predicted before the start with what the pools had at the peak. */
#ifndef TESS_TRAIN_MEMORY_REPORT_H
#define TESS_TRAIN_MEMORY_REPORT_H

#include "train/trainer_impl.h"

/* Writes a line of memory.jsonl: peak and prediction of each pool, summed over the ranks that train, and by how many
 * bytes the pool of a rank is off at most (`farthest`). Where a pool of a rank is off by more than 10%, a note says so.
 * Collective over those ranks. */
tess_status tess_trainer_compare_memory(tess_trainer *t);

#endif
