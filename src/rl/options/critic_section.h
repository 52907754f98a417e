/* Options of the value model of PPO. */
#ifndef TESS_RL_OPTIONS_CRITIC_SECTION_H
#define TESS_RL_OPTIONS_CRITIC_SECTION_H

#include "base/core/options.h"

typedef enum tess_trunk_choice { TESS_TRUNK_OWN, TESS_TRUNK_SHARED } tess_trunk_choice;

/* clang-format off */
#define TESS_CRITIC_OPTIONS(OPTION)                                                                                    \
    /* tess_trunk_choice */                                                                                            \
    OPTION(CHOICE, critic, trunk, BITS, "own", "own|shared",                                                           \
           "model that computes the values of ppo: own: a second model; shared: a head on the last layer of the "      \
           "policy")                                                                                                   \
    OPTION(PATH, critic, path, BITS, "", "folder of the value model of ppo; empty: model.path, with a new head")       \
    OPTION(FLOAT, critic, lr, BITS, "1e-5", 0, 1e6,                                                                    \
           "learning rate of the value model; a shared trunk uses the policy's")                                       \
    OPTION(FLOAT, critic, coef, BITS, "0.5", 0, 1e6,                                                                   \
           "weight of the value loss next to the policy's, with a shared trunk")
/* clang-format on */

typedef struct tess_critic_section {
    TESS_CRITIC_OPTIONS(TESS_OPTION_FIELD)
} tess_critic_section;

extern const tess_option_section tess_section_critic;

#endif
