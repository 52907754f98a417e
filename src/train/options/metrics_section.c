#include "train/options/metrics_section.h"

#include "base/core/option_rows.h"

SECTION(metrics, "log lines and files", TESS_METRICS_OPTIONS);
