/* Options of the text that is generated at the end of training. */
#ifndef TESS_TRAIN_OPTIONS_SAMPLE_SECTION_H
#define TESS_TRAIN_OPTIONS_SAMPLE_SECTION_H

#include "base/core/options.h"

/* clang-format off */
#define TESS_SAMPLE_OPTIONS(OPTION)                                                                                    \
    OPTION(TEXT, sample, prompt, CALLS, "", "text to continue at the end of training; empty: no sample")               \
    OPTION(INT, sample, max_new_tokens, CALLS, "100", 0, 1e6, "number of tokens of the sample")                        \
    OPTION(FLOAT, sample, temperature, CALLS, "0.8", 0, 100,                                                           \
           "temperature of the sample; 0: always the likeliest token")                                                 \
    OPTION(INT, sample, top_k, CALLS, "0", 0, 1e6, "draw from the k likeliest tokens; 0: all")                         \
    OPTION(FLOAT, sample, top_p, CALLS, "0.95", 0, 1, "draw from the likeliest tokens that reach this probability")
/* clang-format on */

typedef struct tess_sample_section {
    TESS_SAMPLE_OPTIONS(TESS_OPTION_FIELD)
} tess_sample_section;

extern const tess_option_section tess_section_sample;

#endif
