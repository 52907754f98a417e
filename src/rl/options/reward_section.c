#include "rl/options/reward_section.h"

#include "base/core/option_rows.h"

SECTION(reward, "how they are graded", TESS_REWARD_OPTIONS);
