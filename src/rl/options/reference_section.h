/* Options of the model that the policy is compared with. */
#ifndef TESS_RL_OPTIONS_REFERENCE_SECTION_H
#define TESS_RL_OPTIONS_REFERENCE_SECTION_H

#include "base/core/options.h"

/* clang-format off */
#define TESS_REFERENCE_OPTIONS(OPTION)                                                                                 \
    OPTION(PATH, reference, path, BITS, "",                                                                            \
           "folder of the reference's weights; empty: those that the run begins with")                                 \
    OPTION(INT, reference, update_interval, BITS, "0", 0, 1e12,                                                        \
           "number of steps after which the reference becomes the policy; 0: never")                                   \
    OPTION(FLOAT, reference, ema, BITS, "0", 0, 1,                                                                     \
           "share of itself that the reference keeps at each update (moving average)")
/* clang-format on */

typedef struct tess_reference_section {
    TESS_REFERENCE_OPTIONS(TESS_OPTION_FIELD)
} tess_reference_section;

extern const tess_option_section tess_section_reference;

#endif
