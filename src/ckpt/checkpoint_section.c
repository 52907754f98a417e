#include "ckpt/checkpoint_section.h"

#include "base/core/option_rows.h"

SECTION(checkpoint, "saving and resuming", TESS_CHECKPOINT_OPTIONS);
