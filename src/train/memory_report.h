/* What memory was predicted before the start, beside what the pools had at the peak. */
#ifndef TESS_TRAIN_MEMORY_REPORT_H
#define TESS_TRAIN_MEMORY_REPORT_H

#include "train/trainer_impl.h"

/* A note, and metrics of the newest step: peak and prediction of each pool, all ranks that train together, and the pool
 * of a rank that is farthest from its prediction. Collective over those ranks. */
tess_status tess_trainer_compare_memory(tess_trainer *t);

#endif
