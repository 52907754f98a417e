/* Options of the value model of PPO. */
#ifndef TESS_RL_OPTIONS_CRITIC_SECTION_H
#define TESS_RL_OPTIONS_CRITIC_SECTION_H

#include "base/core/options.h"

typedef enum tess_trunk_choice { TESS_TRUNK_OWN, TESS_TRUNK_SHARED } tess_trunk_choice;

typedef struct tess_critic_section {
    int trunk; /* tess_trunk_choice */
    char path[TESS_TEXT_SIZE];
    double lr, coef;
} tess_critic_section;

extern const tess_option_section tess_section_critic;

#endif
