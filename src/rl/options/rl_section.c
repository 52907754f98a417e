#include "rl/options/rl_section.h"

#include "base/core/option_rows.h"

SECTION(rl, "reinforcement learning (tessera rl)", TESS_RL_OPTIONS);
