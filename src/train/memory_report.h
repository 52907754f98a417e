/* What memory was predicted before the start, beside what the pools had at the peak. */
#ifndef TESS_TRAIN_MEMORY_REPORT_H
#define TESS_TRAIN_MEMORY_REPORT_H

#include "train/trainer_impl.h"

/* A note, and a line of memory.jsonl: peak and prediction of each pool, all ranks that train together. The note says
 * how far a pool of a rank is from its prediction at most. Collective over those ranks. */
tess_status tess_trainer_compare_memory(tess_trainer *t);

#endif
