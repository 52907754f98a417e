#include "engine/options/offload_section.h"

#include "base/core/option_rows.h"

SECTION(offload, "state on disk", TESS_OFFLOAD_OPTIONS);
