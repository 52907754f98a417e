/* Options of the checks of a step's numbers: NaN, spikes, replicas. */
#ifndef TESS_ENGINE_OPTIONS_NUMBERS_SECTION_H
#define TESS_ENGINE_OPTIONS_NUMBERS_SECTION_H

#include "base/core/options.h"

typedef enum tess_numbers_check { TESS_NUMBERS_REPLAY, TESS_NUMBERS_ALWAYS } tess_numbers_check;

typedef enum tess_on_nonfinite { TESS_NUMBERS_STOP, TESS_NUMBERS_SKIP } tess_on_nonfinite;

/* clang-format off */
#define TESS_NUMBERS_OPTIONS(OPTION)                                                                                   \
    /* tess_on_nonfinite */                                                                                            \
    OPTION(CHOICE, numbers, on_nonfinite, BITS, "stop", "stop|skip",                                                   \
           "reaction to a loss or gradient that is NaN or infinite: stop: end the run; skip: leave out the update "    \
           "of the step")                                                                                              \
    OPTION(INT, numbers, max_skips, BITS, "10", 0, 1e9, "number of steps in a row that may be skipped")                \
    /* tess_numbers_check */                                                                                           \
    OPTION(CHOICE, numbers, check, CALLS, "replay", "replay|always",                                                   \
           "how the origin of a NaN is found: replay: by computing the step again; always: by checking every value "   \
           "when it is computed")                                                                                      \
    OPTION(FLOAT, numbers, spike_z, CALLS, "6", 0, 100,                                                                \
           "warn of a loss or gradient norm this many deviations above the newest 128; 0: never")                      \
    OPTION(FLOAT, numbers, skip_update_lossz, BITS, "0", 0, 100,                                                       \
           "leave out the update of a step whose loss is this many deviations above the newest 128; 0: never")         \
    OPTION(FLOAT, numbers, skip_update_gradz, BITS, "0", 0, 100,                                                       \
           "leave out the update of a step whose gradient norm is this many deviations above the newest 128; 0: "      \
           "never")                                                                                                    \
    OPTION(INT, numbers, replica_check_interval, CALLS, "100", 0, 1e12,                                                \
           "steps between checks that all copies of weights and optimizer state are the same bits; 0: never")
/* clang-format on */

typedef struct tess_numbers_section {
    TESS_NUMBERS_OPTIONS(TESS_OPTION_FIELD)
} tess_numbers_section;

extern const tess_option_section tess_section_numbers;

#endif
