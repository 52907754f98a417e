#include "engine/options/numbers_section.h"

#include "base/core/option_rows.h"

SECTION(numbers, "NaN, spikes, replicas", TESS_NUMBERS_OPTIONS);
