/* Options of jobs whose number of ranks changes. */
#ifndef TESS_CONTROL_OPTIONS_ELASTIC_SECTION_H
#define TESS_CONTROL_OPTIONS_ELASTIC_SECTION_H

#include "base/core/options.h"

typedef struct tess_elastic_section {
    int64_t min_ranks, max_ranks;
    double retry_s;
} tess_elastic_section;

extern const tess_option_section tess_section_elastic;

#endif
