#include "train/options/sample_section.h"

#include "base/core/option_rows.h"

SECTION(sample, "text generated at the end", TESS_SAMPLE_OPTIONS);
