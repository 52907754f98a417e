#include "train/options/validation_section.h"

#include "base/core/option_rows.h"

SECTION(validation, "held-out text", TESS_VALIDATION_OPTIONS);
