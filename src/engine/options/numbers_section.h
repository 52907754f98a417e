/* Options of the checks of a step's numbers: NaN, spikes, replicas. */
#ifndef TESS_ENGINE_OPTIONS_NUMBERS_SECTION_H
#define TESS_ENGINE_OPTIONS_NUMBERS_SECTION_H

#include "base/core/options.h"

typedef enum tess_numbers_check { TESS_NUMBERS_REPLAY, TESS_NUMBERS_ALWAYS } tess_numbers_check;

typedef enum tess_on_nonfinite { TESS_NUMBERS_STOP, TESS_NUMBERS_SKIP } tess_on_nonfinite;

typedef struct tess_numbers_section {
    int check, on_nonfinite; /* tess_numbers_check, tess_on_nonfinite */
    int64_t max_skips;
    double spike_z, skip_update_lossz, skip_update_gradz;
    int64_t replica_check_interval;
} tess_numbers_section;

extern const tess_option_section tess_section_numbers;

#endif
