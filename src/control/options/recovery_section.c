#include "control/options/recovery_section.h"

#include "base/core/option_rows.h"

SECTION(recovery, "after a failure", TESS_RECOVERY_OPTIONS);
