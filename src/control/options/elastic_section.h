/* Options of jobs whose number of ranks changes. */
#ifndef TESS_CONTROL_OPTIONS_ELASTIC_SECTION_H
#define TESS_CONTROL_OPTIONS_ELASTIC_SECTION_H

#include "base/core/options.h"

/* clang-format off */
#define TESS_ELASTIC_OPTIONS(OPTION)                                                                                   \
    OPTION(INT, elastic, min_ranks, NOTHING, "0", 0, 512,                                                              \
           "leave out a place whose ranks keep failing while this many ranks remain; 0: never")                        \
    OPTION(INT, elastic, max_ranks, NOTHING, "0", 0, 512,                                                              \
           "grow to as many ranks, at a checkpoint, when there is room for elastic.retry_s; 0: as many as were "       \
           "started")                                                                                                  \
    OPTION(FLOAT, elastic, retry_s, NOTHING, "600", 0, 1e9,                                                            \
           "seconds until a place that was left out is tried again, at the next checkpoint")
/* clang-format on */

typedef struct tess_elastic_section {
    TESS_ELASTIC_OPTIONS(TESS_OPTION_FIELD)
} tess_elastic_section;

extern const tess_option_section tess_section_elastic;

#endif
