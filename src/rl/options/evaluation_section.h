/* Options of evaluations on held-out prompts. */
#ifndef TESS_RL_OPTIONS_EVALUATION_SECTION_H
#define TESS_RL_OPTIONS_EVALUATION_SECTION_H

#include "base/core/options.h"

typedef struct tess_evaluation_section {
    int64_t n;
    double temperature, threshold;
    bool at_start;
} tess_evaluation_section;

extern const tess_option_section tess_section_evaluation;

#endif
