/* Tells the user what remains of a run whose ranks were killed. */
#ifndef TESS_CONTROL_SUPERVISE_KEPT_H
#define TESS_CONTROL_SUPERVISE_KEPT_H

#include "train/train.h"

/* Appends "; newest checkpoint: step 33, 19 steps lost" to `text`. steps: number of steps that the run has done; -1:
 * not known, or none is lost. */
void tess_kept_describe(const tess_config *config, int64_t steps, char *text, size_t size);

#endif
