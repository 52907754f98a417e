/* Declares the options of collectives. */
#ifndef TESS_COMM_COMM_SECTION_H
#define TESS_COMM_COMM_SECTION_H

#include "base/core/options.h"

typedef enum tess_reduction_choice { TESS_REDUCTION_TREE, TESS_REDUCTION_NATIVE } tess_reduction_choice;

typedef struct tess_comm_section {
    double timeout_s, soft_timeout_s;
    int backend, reduction; /* values of tess_backend and tess_reduction_choice */
    int on_timeout;         /* action: report, abort or recover */
    char tuning[TESS_TEXT_SIZE];
} tess_comm_section;

extern const tess_option_section tess_section_comm;

#endif
