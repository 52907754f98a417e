/* Options of evaluations on held-out text. */
#ifndef TESS_TRAIN_OPTIONS_VALIDATION_SECTION_H
#define TESS_TRAIN_OPTIONS_VALIDATION_SECTION_H

#include "base/core/options.h"

typedef struct tess_validation_section {
    bool enable;
    tess_text_list files;
    double fraction;
    int64_t interval, steps, retries, patience;
    double timeout_s, min_delta;
} tess_validation_section;

extern const tess_option_section tess_section_validation;

#endif
