#include "engine/options/debug_section.h"

#include "base/core/option_rows.h"

SECTION(debug, "reproducibility and traces", TESS_DEBUG_OPTIONS);
