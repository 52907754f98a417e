/* Options of reproducibility and traces. */
#ifndef TESS_ENGINE_OPTIONS_DEBUG_SECTION_H
#define TESS_ENGINE_OPTIONS_DEBUG_SECTION_H

#include "base/core/options.h"

/* clang-format off */
#define TESS_DEBUG_OPTIONS(OPTION)                                                                                     \
    OPTION(INT, debug, seed, BITS, "0", 0, 9007199254740992.0, "seed of initial weights, data order and samples")      \
    OPTION(BOOL, debug, deterministic, NOTHING, "true",                                                                \
           "accepted for compatibility; runs are always deterministic")                                                \
    OPTION(BOOL, debug, trace, NOTHING, "true", "keep each rank's last events in job.dump_folder/trace")
/* clang-format on */

typedef struct tess_debug_section {
    TESS_DEBUG_OPTIONS(TESS_OPTION_FIELD)
} tess_debug_section;

extern const tess_option_section tess_section_debug;

#endif
