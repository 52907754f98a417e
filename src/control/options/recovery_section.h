/* Options of what happens after a failure. */
#ifndef TESS_CONTROL_OPTIONS_RECOVERY_SECTION_H
#define TESS_CONTROL_OPTIONS_RECOVERY_SECTION_H

#include "base/core/options.h"

typedef enum tess_on_nan { TESS_NAN_ROLLBACK, TESS_NAN_STOP } tess_on_nan;

typedef struct tess_recovery_section {
    bool enable, hot;
    int64_t max_failures;
    double window_s, backoff_s, backoff_max_s;
    int on_nan; /* tess_on_nan */
} tess_recovery_section;

extern const tess_option_section tess_section_recovery;

#endif
