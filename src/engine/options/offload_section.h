/* Options of the state and the activations that lie on disk. */
#ifndef TESS_ENGINE_OPTIONS_OFFLOAD_SECTION_H
#define TESS_ENGINE_OPTIONS_OFFLOAD_SECTION_H

#include "base/core/options.h"

/* clang-format off */
#define TESS_OFFLOAD_OPTIONS(OPTION)                                                                                   \
    OPTION(PATH, offload, folder, NOTHING, "",                                                                         \
           "folder on a disk for what is offloaded; its files have no names; empty, with job.shards=device: the "      \
           "host's memory")                                                                                            \
    OPTION(BOOL, offload, params, LAYOUT, "false", "master weights lie on disk: 4 bytes a parameter")                  \
    OPTION(BOOL, offload, grads, LAYOUT, "false", "sums of gradients lie on disk: 4 bytes a parameter, or more")       \
    OPTION(BOOL, offload, optimizer, LAYOUT, "false",                                                                  \
           "moments of the optimizer lie on disk: 8 bytes a parameter with adamw")                                     \
    OPTION(BOOL, offload, activations, CALLS, "false",                                                                 \
           "activations that wait for backward lie on disk, three layers of them in memory; needs job.device=cpu")     \
    OPTION(BYTES, offload, resident, NOTHING, "0", 0, 1LL << 50,                                                       \
           "bytes of offloaded state that a rank keeps in memory at a time, such as 2GiB; 0: enough for the "          \
           "largest unit and its neighbours")
/* clang-format on */

typedef struct tess_offload_section {
    TESS_OFFLOAD_OPTIONS(TESS_OPTION_FIELD)
} tess_offload_section;

extern const tess_option_section tess_section_offload;

#endif
