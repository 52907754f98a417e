/* Options of the text that is generated at the end of training. */
#ifndef TESS_TRAIN_OPTIONS_SAMPLE_SECTION_H
#define TESS_TRAIN_OPTIONS_SAMPLE_SECTION_H

#include "base/core/options.h"

typedef struct tess_sample_section {
    char prompt[TESS_TEXT_SIZE];
    int64_t max_new_tokens, top_k;
    double temperature, top_p;
} tess_sample_section;

extern const tess_option_section tess_section_sample;

#endif
