#include "rl/options/critic_section.h"

#include "base/core/option_rows.h"

static const tess_option critic[] = {
    CHOICE(
        critic, trunk, BITS, "own", "own|shared",
        "model that computes the values of ppo: own: a second model; shared: a head on the last layer of the policy"),
    PATH(critic, path, BITS, "", "folder of the value model of ppo; empty: model.path, with a new head"),
    FLOAT(critic, lr, BITS, "1e-5", 0, 1e6, "learning rate of the value model; a shared trunk uses the policy's"),
    FLOAT(critic, coef, BITS, "0.5", 0, 1e6, "weight of the value loss next to the policy's, with a shared trunk"),
};
const tess_option_section tess_section_critic = SECTION("critic", "the value model of ppo", critic);
