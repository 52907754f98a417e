/* Options of evaluations on held-out text. */
#ifndef TESS_TRAIN_OPTIONS_VALIDATION_SECTION_H
#define TESS_TRAIN_OPTIONS_VALIDATION_SECTION_H

#include "base/core/options.h"

/* clang-format off */
#define TESS_VALIDATION_OPTIONS(OPTION)                                                                                \
    OPTION(BOOL, validation, enable, CALLS, "true", "evaluate at intervals and at the end")                            \
    OPTION(PATHS, validation, files, BITS, "text to evaluate on; empty: the end of data.files, see fraction")          \
    OPTION(FLOAT, validation, fraction, BITS, "0.05", 0, 0.9,                                                          \
           "share at the end of each data file that is held out (validation.files is empty)")                          \
    OPTION(INT, validation, interval, CALLS, "100", 1, 1e12, "steps between evaluations")                              \
    OPTION(INT, validation, patience, BITS, "0", 0, 1e6,                                                               \
           "evaluations in a row without a better loss after which the run ends; its best model is in best/; 0: "      \
           "never")                                                                                                    \
    OPTION(FLOAT, validation, min_delta, BITS, "0", 0, 1e9,                                                            \
           "a loss is better if it is lower than the best by more than this")                                          \
    OPTION(INT, validation, steps, CALLS, "0", 0, 1e12, "micro-batches of an evaluation; 0: all of the text")          \
    OPTION(FLOAT, validation, timeout_s, CALLS, "1800", 0, 1e9,                                                        \
           "seconds after which an evaluation ends and counts as partial; 0: never")                                   \
    OPTION(INT, validation, retries, CALLS, "3", 0, 100,                                                               \
           "times that ranks go on with smaller micro-batches after one failed; then the result is partial or "        \
           "missing")
/* clang-format on */

typedef struct tess_validation_section {
    TESS_VALIDATION_OPTIONS(TESS_OPTION_FIELD)
} tess_validation_section;

extern const tess_option_section tess_section_validation;

#endif
