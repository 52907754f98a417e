#include "control/options/elastic_section.h"

#include "base/core/option_rows.h"

SECTION(elastic, "another number of ranks", TESS_ELASTIC_OPTIONS);
