#include "rl/options/critic_section.h"

#include "base/core/option_rows.h"

SECTION(critic, "the value model of ppo", TESS_CRITIC_OPTIONS);
