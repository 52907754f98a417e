#include "rl/options/reference_section.h"

#include "base/core/option_rows.h"

SECTION(reference, "the model that the policy is compared with", TESS_REFERENCE_OPTIONS);
