#include "train/phases.h"

#include <stddef.h>

const char *const tess_train_phases[] = {
    "setup",  "data",    "forward", "backward", "optimizer",  "log",     "validation", "checkpoint",
    "export", "judging", "judged",  "shard",    "shard-done", "updated", /* moments of the optimizer's */
    NULL};
