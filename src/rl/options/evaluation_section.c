#include "rl/options/evaluation_section.h"

#include "base/core/option_rows.h"

SECTION(evaluation, "held-out prompts: validation.files", TESS_EVALUATION_OPTIONS);
