#include "rl/options/critic_section.h"

#include "base/core/option_rows.h"

static const tess_option critic[] = {
    CHOICE(critic, trunk, BITS, "own", "own|shared",
           "ppo: own: values come from a second model; shared: from a head on the policy's last layer"),
    PATH(critic, path, BITS, "", "ppo: folder of the value model; empty: model.path, with a new head"),
    FLOAT(critic, lr, BITS, "1e-5", 0, 1e6, "its learning rate; shared: the policy's"),
    FLOAT(critic, coef, BITS, "0.5", 0, 1e6, "shared: weight of the value loss next to the policy's"),
};
const tess_option_section tess_section_critic = SECTION("critic", "the value model of ppo", critic);
