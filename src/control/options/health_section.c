#include "control/options/health_section.h"

#include "base/core/option_rows.h"

SECTION(health, "the state of the host, and alerts", TESS_HEALTH_OPTIONS);
