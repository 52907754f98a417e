/* Options of reproducibility and traces. */
#ifndef TESS_ENGINE_OPTIONS_DEBUG_SECTION_H
#define TESS_ENGINE_OPTIONS_DEBUG_SECTION_H

#include "base/core/options.h"

typedef struct tess_debug_section {
    int64_t seed;
    bool deterministic, trace;
} tess_debug_section;

extern const tess_option_section tess_section_debug;

#endif
