#include "control/options/recovery_section.h"

#include "base/core/option_rows.h"

static const tess_option recovery[] = {
    BOOL(recovery, enable, NOTHING, "true", "continue from the newest valid state after a failure, in runs with -n"),
    BOOL(recovery, hot, CALLS, "true",
         "replace a lost rank; the other processes stay, and at most one step is repeated"),
    INT(recovery, max_failures, NOTHING, "3", 0, 64,
        "this many failures within recovery.window_s end the job; 0: no limit"),
    FLOAT(recovery, window_s, NOTHING, "3600", 0, 1e9,
          "seconds within which recovery.max_failures failures end the job"),
    FLOAT(recovery, backoff_s, NOTHING, "1", 0, 1e6,
          "pause before the ranks start again when no step was done since the last failure; doubles each time"),
    FLOAT(recovery, backoff_max_s, NOTHING, "60", 0, 1e6, "longest pause before the ranks start again, in seconds"),
    CHOICE(
        recovery, on_nan, NOTHING, "rollback", "rollback|stop",
        "reaction when numbers.on_nonfinite=stop ends a run; rollback: go back to the newest checkpoint, once a step"),
};
const tess_option_section tess_section_recovery = SECTION("recovery", "after a failure", recovery);
