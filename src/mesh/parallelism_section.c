#include "mesh/parallelism_section.h"

#include "base/core/option_rows.h"
#include "mesh/axes.h"

#define AXIS_CHOICE(id, name, kind) "|" name

SECTION(parallelism, "how ranks share the model", TESS_PARALLELISM_OPTIONS);
