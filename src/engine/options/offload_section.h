/* Options of the state and the activations that lie on disk. */
#ifndef TESS_ENGINE_OPTIONS_OFFLOAD_SECTION_H
#define TESS_ENGINE_OPTIONS_OFFLOAD_SECTION_H

#include "base/core/options.h"

typedef struct tess_offload_section {
    char folder[TESS_TEXT_SIZE];
    bool params, grads, optimizer, activations;
    int64_t resident;
} tess_offload_section;

extern const tess_option_section tess_section_offload;

#endif
