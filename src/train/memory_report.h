/* The run's dry rank (plan/dry_rank.h): what it would call is compared before the first step, and the memory that it
 * would take with the peaks at the end. */
#ifndef TESS_TRAIN_MEMORY_REPORT_H
#define TESS_TRAIN_MEMORY_REPORT_H

#include "plan/memory_need.h"
#include "train/trainer_impl.h"

/* Returns the plan of the ranks on this rank's host. */
tess_memory_plan tess_trainer_plan(const tess_trainer *trainer);

/* Compares over all ranks that train which operations a step will make. Does nothing for a program, because only the
 * program knows in which order it calls hooks, or if a limit on the addresses of a process is in the way. Collective.
 * TESS_E_MISMATCH: the message shows the first difference, and on which rank */
tess_status tess_trainer_rehearse(tess_trainer *trainer);

/* Appends a line to memory.jsonl: peak and prediction of each pool, summed over the training ranks, and the largest
 * difference in bytes on any rank (`farthest`). A note names each pool that is off by more than 10% on some rank.
 * Collective over the training ranks. */
tess_status tess_trainer_compare_memory(tess_trainer *t);

#endif
