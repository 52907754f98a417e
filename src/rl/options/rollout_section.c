#include "rl/options/rollout_section.h"

#include "base/core/option_rows.h"

SECTION(rollout, "samples that it draws", TESS_ROLLOUT_OPTIONS);
