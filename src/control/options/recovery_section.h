/* Options of what happens after a failure. */
#ifndef TESS_CONTROL_OPTIONS_RECOVERY_SECTION_H
#define TESS_CONTROL_OPTIONS_RECOVERY_SECTION_H

#include "base/core/options.h"

typedef enum tess_on_nan { TESS_NAN_ROLLBACK, TESS_NAN_STOP } tess_on_nan;

/* clang-format off */
#define TESS_RECOVERY_OPTIONS(OPTION)                                                                                  \
    OPTION(BOOL, recovery, enable, NOTHING, "true",                                                                    \
           "continue from the newest valid state after a failure, in runs with -n")                                    \
    OPTION(BOOL, recovery, hot, CALLS, "true",                                                                         \
           "replace a lost rank; the other processes stay, and at most one step is repeated")                          \
    OPTION(INT, recovery, max_failures, NOTHING, "3", 0, 64,                                                           \
           "this many failures within recovery.window_s end the job; 0: no limit")                                     \
    OPTION(FLOAT, recovery, window_s, NOTHING, "3600", 0, 1e9,                                                         \
           "seconds within which recovery.max_failures failures end the job")                                          \
    OPTION(FLOAT, recovery, backoff_s, NOTHING, "1", 0, 1e6,                                                           \
           "pause before the ranks start again when no step was done since the last failure; doubles each time")       \
    OPTION(FLOAT, recovery, backoff_max_s, NOTHING, "60", 0, 1e6,                                                      \
           "longest pause before the ranks start again, in seconds")                                                   \
    /* tess_on_nan */                                                                                                  \
    OPTION(CHOICE, recovery, on_nan, NOTHING, "rollback", "rollback|stop",                                             \
           "reaction when numbers.on_nonfinite=stop ends a run; rollback: go back to the newest checkpoint, once a "   \
           "step")
/* clang-format on */

typedef struct tess_recovery_section {
    TESS_RECOVERY_OPTIONS(TESS_OPTION_FIELD)
} tess_recovery_section;

extern const tess_option_section tess_section_recovery;

#endif
