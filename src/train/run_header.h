/* The header of a run: what a program that follows it (metrics.command) learns before the first line. */
#ifndef TESS_TRAIN_RUN_HEADER_H
#define TESS_TRAIN_RUN_HEADER_H

#include "train/trainer.h"

#define TESS_RUN_HEADER "run.json" /* its name, inside job.dump_folder */

/* Writes the header: {"event": "run", "step": 100, "steps": 500, "name": ..., "config": {"training.lr": ...}, ...}.
 * Called on rank 0, when the files of lines have been cut to the step after which the run goes on. */
tess_status tess_run_header_write(const tess_trainer *trainer);
/* The configuration as one object: {"training.steps": 500, ...}; a new reference. Without memory: NULL, or
 * incomplete. */
json_t *tess_run_header_config(const tess_config *config);

#endif
