/* Writes run.json: what a run is, for readers of its folder (src/page). It holds the version, the machine, the model
 * and the configuration as it counts. */
#ifndef TESS_TRAIN_RUN_RECORD_H
#define TESS_TRAIN_RUN_RECORD_H

#include "train/trainer_impl.h"

/* Writes the file on rank 0, when a run begins or resumes. A failure is a warning. User names, passwords and queries in
 * URLs are hidden. */
void tess_trainer_record_run(const tess_trainer *t);

/* Appends a line to memory.jsonl: peak bytes of each pool on each rank that trains, {"by_rank": {"params": [...]}}.
 * Collective over the training ranks. Jobs of more ranks than TESS_RECORD_RANKS have no such line. */
enum { TESS_RECORD_RANKS = 1024 };
tess_status tess_trainer_record_memory(const tess_trainer *t);

#endif
