/* Compares the memory predicted before the start with the peak use of each pool. */
#ifndef TESS_TRAIN_MEMORY_REPORT_H
#define TESS_TRAIN_MEMORY_REPORT_H

#include "train/trainer_impl.h"

/* Appends a line to memory.jsonl: peak and prediction of each pool, summed over the training ranks, and the largest
 * difference in bytes on any rank (`farthest`). A note names each pool that is off by more than 10% on some rank.
 * Collective over the training ranks. */
tess_status tess_trainer_compare_memory(tess_trainer *t);

#endif
