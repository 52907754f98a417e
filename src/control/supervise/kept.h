/* Tells the user what is kept of a run whose ranks were killed. */
#ifndef TESS_CONTROL_SUPERVISE_KEPT_H
#define TESS_CONTROL_SUPERVISE_KEPT_H

#include "train/train.h"

/* Appends "; newest checkpoint: step 33, 19 steps lost" to `text`. steps: those done by the run; -1: not
 * known, or none is lost. */
void tess_kept_describe(const tess_config *config, int64_t steps, char *text, size_t size);

#endif
