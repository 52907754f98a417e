/* Options of the model that the policy is compared with. */
#ifndef TESS_RL_OPTIONS_REFERENCE_SECTION_H
#define TESS_RL_OPTIONS_REFERENCE_SECTION_H

#include "base/core/options.h"

typedef struct tess_reference_section {
    char path[TESS_TEXT_SIZE];
    int64_t update_interval;
    double ema;
} tess_reference_section;

extern const tess_option_section tess_section_reference;

#endif
