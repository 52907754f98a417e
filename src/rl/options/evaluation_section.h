/* Options of evaluations on held-out prompts. */
#ifndef TESS_RL_OPTIONS_EVALUATION_SECTION_H
#define TESS_RL_OPTIONS_EVALUATION_SECTION_H

#include "base/core/options.h"

/* clang-format off */
#define TESS_EVALUATION_OPTIONS(OPTION)                                                                                \
    OPTION(INT, evaluation, n, CALLS, "16", 1, 65536, "samples of each prompt of validation.files")                    \
    OPTION(FLOAT, evaluation, temperature, CALLS, "1", 0, 100,                                                         \
           "temperature of these samples; 0: always the likeliest token")                                              \
    OPTION(FLOAT, evaluation, threshold, CALLS, "1", -1e30, 1e30, "smallest reward that counts as right")              \
    OPTION(BOOL, evaluation, at_start, CALLS, "true", "evaluate before the first step too")
/* clang-format on */

typedef struct tess_evaluation_section {
    TESS_EVALUATION_OPTIONS(TESS_OPTION_FIELD)
} tess_evaluation_section;

extern const tess_option_section tess_section_evaluation;

#endif
